#pragma once

#include <cstdint>

#include "simulator/tape/core/tape.h"

namespace headroom::phases {

/// What one rank holds of a step between its phases. Shapes: B sequences of T = P + R tokens.
struct Experience {
  std::int64_t batch = 0, prompt = 0, response = 0;  ///< of this rank
  tape::Tensor prompts;                              ///< [B,P] int64
  tape::Tensor sequences;                            ///< [B,T] int64
  tape::Tensor mask;                                 ///< [B,T] int64, when the job passes one
  tape::Tensor old_logprobs, ref_logprobs;           ///< [B,T-1]
  tape::Tensor values;                               ///< [B,T]
  tape::Tensor advantages;                           ///< [B,T-1] fp32
  tape::Tensor rewards;                              ///< [B] fp32
};

}  // namespace headroom::phases
