#pragma once

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// log_softmax over the last dimension; saves its result. An input that is not row-major is copied after the
/// result exists. Under autocast bf16 is cast to fp32 first; fp16 is widened by the
/// kernel itself.
Tensor log_softmax(Arg self);
/// softmax over the last dimension, in `dtype`; saves its result.
Tensor softmax(Arg self, DType dtype);
/// self.gather(-1, index): saves index and self; backward makes zeros of self's size.
Tensor gather(Arg self, Arg index);
/// nll_loss(reduction="none") over rows of log-probabilities [n,V].
Tensor nll_loss(Arg self, Arg target);
/// torch.logsumexp over the last dimension; saves self and result.
Tensor logsumexp(Arg self);
/// mse_loss with mean reduction: the scalar keeps the full-size storage of its first temporary.
Tensor mse_loss(Arg self, Arg target);

/// torch.nn.functional.logsigmoid; saves its input.
Tensor log_sigmoid(Arg self);

}  // namespace headroom::tape
