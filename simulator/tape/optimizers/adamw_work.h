#pragma once

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// What executors that compute are told of one step of Adam over equally long tensors, on the device or all
/// on the host: `gradient` and the moments move `parameter`, in place. Nothing where none compute.
void adamw_work(Tape& tape, std::uint16_t name, const Tensor& parameter, const Tensor& gradient,
                const Tensor& average, const Tensor& square_average);

}  // namespace headroom::tape
