#pragma once

#include <map>
#include <vector>

#include "validator/cuda/nccl.h"
#include "validator/launch/rendezvous.h"

namespace headroom::gpu {

/// A communicator over all ranks of the rendezvous. Every rank calls it.
Result<Communicator> join_group(launch::Rendezvous& ranks);

/// The communicators of one rank, by size, over the ranks that are present.
///
/// A job's group of R ranks is all present ranks where they are R or fewer; where more are present, each R
/// consecutive ones are a group, as tensor-parallel groups are laid out.
class Groups {
 public:
  /// `ranks` outlives the groups.
  explicit Groups(launch::Rendezvous& ranks) : ranks_(&ranks) {}

  int present() const { return ranks_->place().ranks; }
  /// Opens `count` communicators over all present ranks and uses each once, so that everything NCCL takes is
  /// taken. Every rank calls it; returns how many are open.
  Result<int> open(std::int64_t count);
  /// The communicator for a job's group of `ranks` ranks; opened at first use, which every rank reaches in
  /// the same order. An error where the present ranks do not divide into such groups.
  Result<Communicator*> of(std::int64_t ranks);
  /// Closes all; without waiting for the others when `alone`. The first failure.
  Status close(bool alone);

 private:
  launch::Rendezvous* ranks_;
  std::vector<Communicator> whole_;
  std::map<std::int64_t, Communicator> parts_;
};

}  // namespace headroom::gpu
