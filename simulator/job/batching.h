#pragma once

#include <cstdint>
#include <span>

#include "simulator/job/job.h"

namespace headroom {

/// GPUs that `role` is spread over: those of the pool of its process (the first pool when it has none).
std::int64_t ranks_of(const Job& job, const Role& role);

/// Ranks that see different sequences: GPUs / (tensor · pipeline · context · ulysses).
std::int64_t data_parallel_size(const Job& job, const Role& role);

/// Ranks over which one copy of the role's states is spread: `sharding.group`, or all that hold the same
/// model-parallel part (sequence parallelism included: its ranks hold equal weights).
std::int64_t shard_group_size(const Job& job, const Role& role);

/// Whether the role's batch lies on its device as rectangles of padded sequences: so with a loop of its own,
/// and where the trainer itself generates; a batch that an engine made lies on the host and comes in
/// micro-batches, and so does that of a trainer that holds a micro-batch's logits to the next or has it scored within
/// its update.
bool lies_padded(const Job& job, const Role& role);

/// Sequences of one optimizer step, all ranks together.
std::int64_t mini_batch_of(const Job& job, const Role& role);

enum class Pass { train, forward };

/// How one rank's sequences fall into micro-batches when every sequence has the same length.
struct MicroBatches {
  std::int64_t count = 0;      ///< micro-batches of a mini-batch (train) or of the whole batch (forward)
  std::int64_t sequences = 0;  ///< in the largest one
  std::int64_t tokens = 0;     ///< in the largest one, of all ranks of the sequence-parallel group together
  std::int64_t tokens_per_rank = 0;  ///< a rank's share: divided by ulysses · context, rounded up
  std::int64_t valid = 0;            ///< of `tokens`, those that are no padding
  /// Of the work of `count` micro-batches of `tokens`, the share that ranks wait for: the largest sets the peak, all
  /// sequences together the time. Where every layer is gathered, all ranks wait in each micro-batch for the one
  /// that drew the longest sequences.
  double filled = 1;
};

/// The micro-batches of one rank's mini-batch (train) or of its share of the batch (forward), each sequence
/// `length` tokens long.
///
/// Fixed size: ceil(s / sequences). A token budget b (times ulysses and context sizes): ceil(s·length / b)
/// but at most s, contents spread evenly, so one can exceed b when sequences are long relative to it; with
/// mixed lengths by `overshoot` too. Never more than the rank has. O(1).
MicroBatches micro_batches(const Job& job, const Role& role, Pass pass, std::int64_t length);

/// One micro-batch of sequences of these lengths (at least one): packed, their sum, padded up to
/// `MicroBatch::round_to`; else a rectangle as wide as the longest.
MicroBatches listed_batch(const Role& role, Pass pass, std::span<const std::int64_t> lengths);

}  // namespace headroom
