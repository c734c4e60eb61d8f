#include "planner/frameworks/deepspeed_chat/launcher.h"

#include "planner/frameworks/shell/runner_count.h"

namespace headroom::deepspeed_chat {

Result<std::int64_t> launched_gpus(const shell::Launch& launch, const JobOptions& options) {
  std::optional<std::int64_t> nodes = options.nodes, each = options.gpus_per_node;
  if (!nodes) {
    HEADROOM_ASSIGN(nodes, shell::runner_count(launch, {"--num_nodes", "--nnodes"}));
  }
  if (!each) {
    HEADROOM_ASSIGN(each, shell::runner_count(launch, {"--num_gpus", "--nproc_per_node", "--nproc-per-node"}));
  }
  // The launcher takes all GPUs of a node where it is not told.
  constexpr std::int64_t kNode = 8;
  return nodes.value_or(1) * each.value_or(kNode);
}

}  // namespace headroom::deepspeed_chat
