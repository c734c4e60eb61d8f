#include "simulator/device/megatron_groups.h"

#include <algorithm>

#include "models/sharding/ranks.h"

namespace headroom {
namespace {

const Role* megatron_role(const Job& job, const Process& process) {
  const Role* found = nullptr;
  for (const Role& role : job.roles) {
    const bool here = std::find(process.roles.begin(), process.roles.end(), role.name) != process.roles.end();
    // Roles of one process share their groups; the trained one uses most of them.
    if (here && role.sharding.kind == ShardingKind::megatron && (found == nullptr || role.trained))
      found = &role;
    if (found != nullptr && found->trained) break;
  }
  return found;
}

bool has_experts(const Role& role) {
  if (role.model == nullptr) return false;
  return std::any_of(role.model->decoder.groups.begin(), role.model->decoder.groups.end(),
                     [](const LayerGroup& group) { return group.layer.mlp.kind == MlpKind::experts; });
}

class Groups {
 public:
  /// `node`: ranks a node.
  explicit Groups(std::int64_t node) : node_(node) {}
  /// Of `ranks` ranks, each `apart` ranks from the next.
  void collective(Verb first, std::int64_t ranks, std::int64_t apart = 1) {
    out_.push_back({.first = first, .span = span_of(ranks, apart, node_)});
  }
  /// Sends and receives; `made`: in a communicator of their own.
  void peers(Verb first, std::int64_t ranks, std::int64_t apart, bool made, std::int64_t send, std::int64_t receive) {
    out_.push_back({.first = first,
                    .span = span_of(ranks, apart, node_),
                    .collective = false,
                    .made = made,
                    .send = send,
                    .receive = receive});
  }
  std::vector<GroupUse> take() { return std::move(out_); }

 private:
  std::int64_t node_;
  std::vector<GroupUse> out_;
};

/// `apart`: ranks of a stage.
void add_pipeline(Groups& groups, const Parallel& p, std::int64_t stage, std::int64_t apart) {
  if (p.pipeline == 1) return;
  const std::int64_t before = stage > 0, after = stage + 1 < p.pipeline;
  if (p.virtual_pipeline > 1) {
    // Both directions from the start; two stages use another group for one of them.
    groups.peers(Verb::forward, p.pipeline, apart, true, before + after, before + after);
    if (p.pipeline == 2) groups.peers(Verb::forward, p.pipeline, apart, true, 0, 0);
    return;
  }
  groups.peers(Verb::forward, p.pipeline, apart, true, after, before);
  groups.peers(Verb::train, p.pipeline, apart, false, before, after);
}

void add_layers(Groups& groups, const Role& role, bool last) {
  const Parallel& p = role.parallel;
  if (p.tensor > 1 || last) groups.collective(Verb::forward, p.tensor);
  if (p.context > 1) {
    const std::int64_t peers = role.megatron.context_all_to_all ? p.context - 1 : 1;
    groups.peers(Verb::forward, p.context, p.tensor, true, peers, peers);
  }
  if (!has_experts(role)) return;
  const std::int64_t cut = expert_tensor_of(p);
  if (p.expert * cut > 1) groups.collective(Verb::forward, p.expert * cut);
  const bool exchange = role.megatron.dispatcher == MegatronDispatcher::all_to_all;
  if (p.expert > 1 && exchange) groups.peers(Verb::forward, p.expert, cut, true, p.expert - 1, p.expert - 1);
  if (p.expert > 1 && !exchange) groups.collective(Verb::forward, p.expert, cut);
  if (cut > 1) groups.collective(Verb::forward, cut);
  if (p.tensor * p.context > 1) groups.collective(Verb::train, p.tensor * p.context);
}

}  // namespace

std::vector<GroupUse> megatron_groups(const Job& job, const Process& process, std::int64_t gpus,
                                      std::int64_t rank) {
  const Role* role = megatron_role(job, process);
  if (role == nullptr) return {};
  const Parallel& p = role->parallel;
  const auto data = data_parallel(p, gpus);
  const auto place = rank_place(p, gpus, rank);
  if (!data || !place) return {};
  const bool first = place->pipeline == 0, last = place->pipeline + 1 == p.pipeline;
  const Pool* pool = job.pool(process.pool);
  const std::int64_t stage = gpus / p.pipeline;
  Groups groups(pool != nullptr ? pool->gpus_per_node : gpus);
  const bool tied = role->model != nullptr && role->model->decoder.tied_embeddings;
  if (tied && p.pipeline > 1 && (first || last)) groups.collective(Verb::build, 2, gpus - stage);
  if (role->trained) groups.collective(Verb::build_optimizer, gpus);
  add_layers(groups, *role, last);
  add_pipeline(groups, p, place->pipeline, stage);
  if (!role->trained) return groups.take();
  groups.collective(Verb::train, data->dense * p.context, p.tensor);
  if (has_experts(*role) && p.expert > 1) groups.collective(Verb::train, data->expert, p.expert * expert_tensor_of(p));
  if (role->sharding.distributed_optimizer)
    groups.collective(Verb::train, gpus);
  else
    groups.collective(Verb::train, p.tensor * p.pipeline, std::max<std::int64_t>(1, stage / p.tensor));
  return groups.take();
}

}  // namespace headroom
