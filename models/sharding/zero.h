#pragma once

#include <cstdint>
#include <span>

namespace headroom {

/// Elements of one group of parameters on every rank under DeepSpeed's ZeRO, by what is divided.
struct ZeroShare {
  std::int64_t parameters = 0;  ///< resident weights
  std::int64_t gradients = 0;   ///< that stay after reduction
  std::int64_t optimizer = 0;   ///< elements that this rank steps: master weight and moments each
  std::int64_t padding = 0;     ///< elements of all ranks' optimizer shares beyond the group
};

/// `counts`: elements of each parameter of an optimizer group, in order. Stage 0 divides nothing, 1 the
/// optimizer, 2 also gradients, 3 also parameters.
///   * Stages 1 and 2 flatten the group and pad it to twice the ranks (NCCL's alignment).
///   * Stage 3 cuts each parameter into ranks pieces of ceil(count / ranks); parameters below
///     `persistence_threshold` elements stay whole as well.
ZeroShare zero_share(int stage, std::span<const std::int64_t> counts, std::int64_t ranks,
                     std::int64_t persistence_threshold = 0);

}  // namespace headroom
