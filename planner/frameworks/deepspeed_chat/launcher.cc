#include "planner/frameworks/deepspeed_chat/launcher.h"

namespace headroom::deepspeed_chat {

std::int64_t launched_gpus(const shell::Launch& launch, const JobOptions& options) {
  const auto count = [&](std::initializer_list<std::string_view> names, std::optional<std::int64_t> stated,
                         std::int64_t fallback) {
    if (stated) return *stated;
    const shell::Word* word = launch.runner_option(names);
    return word == nullptr ? fallback : Document::scalar(word->text).as_int().value_or(fallback);
  };
  // The launcher takes all GPUs of a node where it is not told.
  constexpr std::int64_t kNode = 8;
  return count({"--num_nodes", "--nnodes"}, options.nodes, 1) *
         count({"--num_gpus", "--nproc_per_node"}, options.gpus_per_node, kNode);
}

}  // namespace headroom::deepspeed_chat
