#include "simulator/device/outside.h"

#include <algorithm>
#include <utility>

#include "simulator/hardware/communicator.h"

namespace headroom {

Peers peers_of(const Job& job, const Process& process, std::int64_t gpus, std::int64_t rank) {
  std::int64_t everyone = 0, ring = 0, stages = 1, alone = 0;
  for (const Role& role : job.roles) {
    if (std::find(process.roles.begin(), process.roles.end(), role.name) == process.roles.end()) continue;
    const Parallel& p = role.parallel;
    const bool heads = p.context > 1 && role.megatron.context_all_to_all;
    const std::int64_t experts = role.sharding.kind == ShardingKind::fsdp2 ? 1 : p.expert;  // DeepEP is not NCCL
    everyone = std::max(everyone, (p.ulysses - 1) + (heads ? p.context - 1 : 0) + (experts - 1));
    if (p.context > 1 && !heads) ring = 1;
    stages = std::max(stages, p.pipeline);
    if (p.ulysses > 1 && p.ulysses * p.model() == gpus) alone = 1;
  }
  const std::int64_t stage = rank * stages / std::max<std::int64_t>(gpus, 1);
  const std::int64_t neighbours = (stage > 0) + (stage + 1 < stages);
  const Pool* pool = job.pool(process.pool);
  const std::int64_t peers = everyone + ring + neighbours;
  const Span span = span_of(peers + 1, 1, pool != nullptr ? pool->gpus_per_node : peers + 1);
  return {.send = peers, .receive = peers, .alone = alone, .nodes = span.nodes};
}

OutsideGrowth::OutsideGrowth(const Hardware& hardware, std::int64_t communicators, Span span, Peers peers)
    : unloaded_(hardware.kernels), cublas_handle_(hardware.cublas_handle) {
  now_.context = hardware.context;
  if (communicators > 0)
    now_.communicators =
        first_communicator_bytes(hardware.nccl, span.ranks) + communicators * communicator_bytes(hardware.nccl, span);
  if (communicators > 0) now_.communicators += peers.alone * communicator_bytes(hardware.nccl, {});
  if (communicators > 0 && (peers.send > 0 || peers.receive > 0))
    peers_ = hardware.nccl.first_p2p + point_to_point_bytes(hardware.nccl, {peers.send + 1, peers.nodes}, peers.send,
                                                            peers.receive);
}

OutsideGrowth::OutsideGrowth(const Hardware& hardware, std::vector<GroupUse> groups)
    : OutsideGrowth(hardware, 0, Span{}) {
  nccl_ = hardware.nccl;
  groups_ = std::move(groups);
}

/// What groups that `verb` is the first to use take, and what the first of their kind in the process adds.
void OutsideGrowth::use(Verb verb) {
  std::vector<GroupUse> later;
  for (const GroupUse& group : groups_) {
    if (group.first != verb) {
      later.push_back(group);
      continue;
    }
    now_.communicators += std::exchange(nccl_.library, 0);
    if (group.collective) {
      if (group.span.ranks > 1) now_.communicators += std::exchange(nccl_.first_collective, 0);
      now_.communicators += communicator_bytes(nccl_, group.span);
      continue;
    }
    NcclMemory without_rings = nccl_;
    without_rings.ring_send = without_rings.ring_receive = 0;
    now_.communicators += std::exchange(nccl_.first_p2p, 0);
    if (group.made) now_.communicators += communicator_bytes(without_rings, group.span);
    now_.communicators += point_to_point_bytes(nccl_, group.span, group.send, group.receive);
  }
  groups_ = std::move(later);
}

void OutsideGrowth::hold_generation(Bytes workspace) {
  now_.workspaces += workspace - std::exchange(generation_, workspace);
}

void OutsideGrowth::begin(const Action& action, const Role* role) {
  const ModelWork work = model_work(action, role);
  const bool passes = work == ModelWork::forward || work == ModelWork::train;
  if (passes) use(Verb::forward);
  use(work == ModelWork::train ? Verb::train : action.verb);
  now_.context += std::exchange(unloaded_.first, 0);
  if (work == ModelWork::none) return;
  now_.context += std::exchange(unloaded_.forward, 0);
  now_.workspaces += std::exchange(cublas_handle_, 0);
  now_.communicators += std::exchange(peers_, 0);
  if (work == ModelWork::generate) now_.context += std::exchange(unloaded_.generate, 0);
  if (work == ModelWork::train) now_.context += std::exchange(unloaded_.train, 0);
}

}  // namespace headroom
