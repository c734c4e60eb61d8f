#include "validator/cuda/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "validator/cuda/check.h"
#include "validator/cuda/handles.h"

namespace headroom::gpu {
namespace {

/// Joins the group `colour` of `colours` equal ones; rank 0 makes all of their ids.
Result<Communicator> join(launch::Rendezvous& ranks, int colours) {
  const int size = ranks.place().ranks / colours, colour = ranks.place().rank / size;
  GroupId id;
  std::string ids;
  if (ranks.place().rank == 0)
    for (int i = 0; i < colours; ++i) {
      HEADROOM_ASSIGN(const GroupId made, Communicator::make_id());
      ids.append(made.bytes.data(), made.bytes.size());
    }
  HEADROOM_ASSIGN(const std::string text, ranks.broadcast(ids));
  const std::size_t at = static_cast<std::size_t>(colour) * id.bytes.size();
  if (text.size() < at + id.bytes.size())
    return fail("rank 0 sent fewer NCCL ids than there are groups: all ranks must run one job");
  std::memcpy(id.bytes.data(), text.data() + at, id.bytes.size());
  return Communicator::join(id, size, ranks.place().rank % size);
}

}  // namespace

Result<Communicator> join_group(launch::Rendezvous& ranks) {
  return join(ranks, 1);
}

Result<int> Groups::open(std::int64_t count) {
  // The host's memory: a block of the card's would move what NCCL allocates.
  constexpr std::int64_t kElements = 1 << 20;
  HEADROOM_ASSIGN(const PinnedBlock block, make_pinned_block(kElements * 4));
  for (std::int64_t i = 0; i < count; ++i) {
    HEADROOM_ASSIGN(Communicator group, join(*ranks_, 1));
    HEADROOM_TRY(group.all_reduce(block.get(), block.get(), kElements, DType::fp32, Reduction::sum, nullptr));
    HEADROOM_TRY(HEADROOM_CUDA(cudaStreamSynchronize(nullptr)));
    whole_.push_back(std::move(group));
  }
  return static_cast<int>(whole_.size());
}

Status Groups::close(bool alone) {
  Status first;
  const auto end = [&](Communicator& group) {
    Status ended = alone ? group.abandon() : group.close();
    if (first) first = std::move(ended);
  };
  for (Communicator& group : whole_) end(group);
  for (auto& [size, group] : parts_) end(group);
  whole_.clear();
  parts_.clear();
  return first;
}

Result<Communicator*> Groups::of(std::int64_t ranks) {
  if (ranks >= present()) {
    if (whole_.empty()) HEADROOM_TRY(open(1));
    return &whole_.front();
  }
  if (const auto known = parts_.find(ranks); known != parts_.end()) return &known->second;
  if (ranks <= 0 || present() % ranks != 0)
    return fail(fmt::format("{} ranks do not divide into the job's groups of {}: start a multiple of it",
                            present(), ranks));
  HEADROOM_ASSIGN(Communicator group, join(*ranks_, static_cast<int>(present() / ranks)));
  return &parts_.emplace(ranks, std::move(group)).first->second;
}

}  // namespace headroom::gpu
