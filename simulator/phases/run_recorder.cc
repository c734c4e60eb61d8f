#include "simulator/phases/run_recorder.h"

#include <vector>

namespace headroom {

void RunRecorder::before_allocation(Label label, const tape::ModuleNames& modules) {
  const std::uint64_t key = std::uint64_t{label.module} << 32 | std::uint64_t{label.operation} << 8 |
                            static_cast<std::uint64_t>(label.component);
  const auto [at, fresh] = stacks_.try_emplace(key);
  if (fresh) at->second = stack_of(label, modules.text(label.module));
  recorder_.set_stack(at->second);
}

replay::StackId RunRecorder::stack_of(Label label, const std::string& module) {
  using Frame = replay::SnapshotRecorder::FrameText;
  const std::string_view component = name(label.component);
  const std::string& operation = tape::operation_text(label.operation);
  std::string_view path = module;
  std::vector<Frame> frames;
  frames.push_back({operation.empty() ? component : operation, path.empty() ? component : path, 0});
  while (!path.empty()) {
    const std::size_t dot = path.rfind('.');
    frames.push_back({dot == std::string_view::npos ? path : path.substr(dot + 1), path, 0});
    path = dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
  }
  frames.push_back({component, "component", 0});
  return recorder_.stack(frames);
}

}  // namespace headroom
