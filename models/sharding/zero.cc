#include "models/sharding/zero.h"

#include <numeric>

#include "models/base/bytes.h"

namespace headroom {

ZeroShare zero_share(int stage, std::span<const std::int64_t> counts, std::int64_t ranks,
                     std::int64_t persistence_threshold) {
  constexpr std::int64_t kAlignment = 2;  // elements a rank, DeepSpeed's nccl_start_alignment_factor
  const std::int64_t whole = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  ZeroShare share{.parameters = whole, .gradients = whole, .optimizer = whole};
  if (stage == 0) return share;
  if (stage < 3) {
    const std::int64_t padded = round_up(whole, kAlignment * ranks);
    share.optimizer = padded / ranks;
    share.padding = padded - whole;
    if (stage == 2) share.gradients = share.optimizer;
    return share;
  }
  std::int64_t kept_whole = 0;
  share.optimizer = 0;
  for (std::int64_t count : counts) {
    share.optimizer += ceil_div(count, ranks);
    if (count < persistence_threshold) kept_whole += count;
  }
  share.gradients = share.optimizer;
  share.parameters = share.optimizer + kept_whole;
  share.padding = share.optimizer * ranks - whole;
  return share;
}

}  // namespace headroom
