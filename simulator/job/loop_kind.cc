#include "simulator/job/loop_kind.h"

#include <algorithm>

#include "simulator/job/names.h"

namespace headroom {

const LoopCall* find_call(const LoopKind& kind, const Action& action) {
  const bool own = action.verb == Verb::call;
  const std::string_view name = own ? std::string_view(action.call) : enum_name(action.verb);
  const auto at = std::find_if(kind.calls.begin(), kind.calls.end(), [&](const LoopCall& call) {
    return call.name == name && (call.run != nullptr) == own;
  });
  return at == kind.calls.end() ? nullptr : &*at;
}

ModelWork model_work(const Action& action, const Role* role) {
  switch (action.verb) {
    case Verb::forward:
      return ModelWork::forward;
    case Verb::train:
      return ModelWork::train;
    case Verb::generate:  // without an engine responses come from elsewhere
      return action.engine.empty() ? ModelWork::none : ModelWork::generate;
    case Verb::call:
      if (role != nullptr && role->loop != nullptr)
        if (const LoopCall* call = find_call(*role->loop, action)) return call->work;
      return ModelWork::none;
    default:
      return ModelWork::none;
  }
}

unsigned parts_needed(const Action& action, const Role* role) {
  if (action.verb == Verb::call) {
    const LoopCall* call =
        role == nullptr || role->loop == nullptr ? nullptr : find_call(*role->loop, action);
    return call == nullptr ? 0 : call->parts;
  }
  switch (model_work(action, role)) {
    case ModelWork::forward:
      return kWeights;
    case ModelWork::generate:
      return action.role.empty() ? 0u : unsigned{kWeights};
    case ModelWork::train:
      return kWeights | kOptimizer | kMasterWeights;
    default:
      return 0;
  }
}

}  // namespace headroom
