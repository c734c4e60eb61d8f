#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// A tensor of a state dict on its way elsewhere: this rank's part (on the device or the host) and the shape of
/// what it is part of.
struct StateTensor {
  Tensor part;
  Shape whole;
};

/// The part of one of `ranks`: rows of the first dimension, the same padded number everywhere.
Shape shard_shape(const Shape& whole, std::int64_t ranks);

/// How a state dict is sent.
struct Sending {
  std::int64_t ranks = 1;     ///< that hold parts
  Bytes bucket = 0;           ///< buffer that tensors are copied into; 0: none
  std::optional<DType> cast;  ///< sent in another dtype than stored
};

/// Sends tensor by tensor: a part on the host is staged on the device, the whole is gathered beside it (a part
/// of one rank is the whole), a cast copy made. The sender's variable holds a tensor until the next one stands.
/// What does not fit the bucket is sent from where it lies. `state` goes when all is sent, before the bucket.
void send(Tape& tape, std::vector<StateTensor> state, const Sending& how);

}  // namespace headroom::tape
