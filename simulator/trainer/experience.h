#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "simulator/tape/core/tape.h"

namespace headroom {
struct LoopKind;
}

namespace headroom::trainer {

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

  /// The variables of a loop of its own, which all its roles share; made when first asked for.
  template <typename T>
  T& own(const LoopKind* loop) {
    std::shared_ptr<void>& variables = own_[loop];
    if (!variables) variables = std::make_shared<T>();
    return *static_cast<T*>(variables.get());
  }

 private:
  std::map<const LoopKind*, std::shared_ptr<void>> own_;
};

}  // namespace headroom::trainer
