#include "simulator/trainer/store/data_parallel.h"

namespace headroom::trainer {
namespace {

const std::uint16_t kBucket = tape::operation_name("reducer::bucket");

/// DistributedDataParallel's bucket_cap_mb; the first bucket's is 1 MiB.
constexpr Bytes kBucketBytes = 25 * kMiB, kFirstBucket = kMiB;

}  // namespace

/// Parameters from the last to the first, a bucket closed by the one that fills it.
void DataParallelStore::build_optimizer() {
  if (role().trained) UnshardedStore::build_optimizer();
  if (!buckets_.empty()) return;
  const tape::ComponentScope component(tape_, Component::communication);
  std::vector<tape::ParameterSlot>& slots = model_->parameters();
  std::int64_t elements = 0;
  Bytes limit = kFirstBucket;
  DType dtype = role().precision.weights;
  const auto close = [&] {
    if (elements > 0) buckets_.push_back(tape_.empty({elements}, dtype, kBucket));
    elements = 0;
    limit = kBucketBytes;
  };
  for (auto slot = slots.rbegin(); slot != slots.rend(); ++slot) {
    // Nobody freezes a model that is only evaluated; beside adapters the rest is.
    if (role().trained && !(*slot->tensor)->requires_grad) continue;
    elements += slot->tensor->elements();
    if (bytes_of(dtype, elements) >= limit) close();
  }
  close();
}

}  // namespace headroom::trainer
