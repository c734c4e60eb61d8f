#pragma once

#include "simulator/tape/core/tape.h"

namespace headroom::trainer {

/// `tensor.data = tensor.data.to(...)`, counted to what it was counted to; nothing where it is there already, or
/// undefined.
void move_to_host(tape::Tape& tape, const tape::Tensor& tensor, HostKind kind);
void move_to_device(tape::Tape& tape, const tape::Tensor& tensor);

}  // namespace headroom::trainer
