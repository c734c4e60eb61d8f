#pragma once

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// Position ids as a decoder makes them without any given: arange(T) + past, [1,T] (torch int64).
Tensor make_position_ids(Tape& tape, std::int64_t tokens);

/// Is a mask, as booleans, all ones? Its sum, in int64, against its size. Nothing stays.
void probe_padding(const Tensor& flags);

/// What Transformers' mask preparation allocates (and frees) when attention needs no explicit mask: the look
/// for packed sequences in the position ids [b,T] without an attention mask, or the check for padding in a
/// [B,columns] mask of ones. Nothing stays.
void probe_mask(const Tensor& position_ids, const Tensor& attention_mask, std::int64_t batch);

}  // namespace headroom::tape
