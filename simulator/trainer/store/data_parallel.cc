#include "simulator/trainer/store/data_parallel.h"

#include <deque>
#include <utility>

namespace headroom::trainer {
namespace {

const std::uint16_t kBucket = tape::operation_name("reducer::bucket"),
                    kUsed = tape::operation_name("reducer::local_used_map"),
                    kSent = tape::operation_name("c10d::broadcast_coalesced");

/// DistributedDataParallel's bucket_cap_mb; the first bucket's is 1 MiB, one of weights that are sent 250 MiB.
constexpr Bytes kBucketBytes = 25 * kMiB, kFirstBucket = kMiB, kSentBytes = 250 * kMiB;

}  // namespace

void DataParallelStore::build_optimizer() {
  if (role().trained) UnshardedStore::build_optimizer();
  if (!buckets_.empty()) return;
  send_weights();
  const bool finds_unused = role().sharding.finds_unused;
  make_buckets(finds_unused);
  if (!finds_unused) return;
  state_ = Buckets::final;
  const tape::ComponentScope component(tape_, Component::communication);
  used_ = tape_.empty({static_cast<std::int64_t>(model_->parameters().size())}, DType::int32, kUsed);
}

/// A lone tensor is sent as it lies.
void DataParallelStore::send_weights() {
  const tape::ComponentScope component(tape_, Component::communication);
  std::deque<tape::Tensor> in_flight;
  std::int64_t elements = 0, tensors = 0;
  const DType dtype = role().precision.weights;
  const auto send = [&] {
    if (in_flight.size() == 2) in_flight.pop_front();
    in_flight.push_back(tensors > 1 ? tape_.empty({elements}, dtype, kSent) : tape::Tensor());
    elements = tensors = 0;
  };
  for (const tape::ParameterSlot& slot : model_->parameters()) {
    elements += slot.tensor->elements();
    ++tensors;
    if (bytes_of(dtype, elements) >= kSentBytes) send();
  }
  if (tensors > 0) send();
}

/// Parameters from the last to the first, a bucket closed by the one that fills it; or one bucket of all.
void DataParallelStore::make_buckets(bool limited) {
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
    if (!limited || bytes_of(dtype, elements) < limit) continue;
    if (buckets_.empty()) closes_first_ = *slot->tensor;
    close();
  }
  close();
}

void DataParallelStore::watch_first_bucket() {
  if (!closes_first_.defined()) return kept_.clear();
  tape_.leaf_hooks(closes_first_).accumulated.push_back([this](const tape::Tensor&) { kept_.clear(); });
}

void DataParallelStore::begin_micro_batch(bool last) {
  UnshardedStore::begin_micro_batch(last);
  if (!role().trained || state_ == Buckets::final) return;
  if (state_ == Buckets::reduced) {
    kept_ = std::exchange(buckets_, {});
    make_buckets(true);
    watch_first_bucket();
    state_ = Buckets::final;
  } else if (last) {
    state_ = Buckets::reduced;  // by the backward that follows
  }
}

}  // namespace headroom::trainer
