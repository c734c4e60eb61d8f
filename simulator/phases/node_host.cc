#include "simulator/phases/node_host.h"

#include <algorithm>

#include "simulator/device/host_floor.h"
#include "simulator/job/batching.h"

namespace headroom {
namespace {

Breakdown times(Breakdown bytes, std::int64_t count) {
  for (Bytes& b : bytes.bytes) b *= count;
  return bytes;
}

}  // namespace

NodeHost::NodeHost(const Job& job, const Pool& pool)
    : job_(job), gpus_(pool.gpus_per_node), processes_(host_floor(job)), peak_(processes_) {}

void NodeHost::trainer(std::size_t process, const Breakdown& peak, const Breakdown& now, const Role* gathered) {
  held_[process] = times(peak, gpus_);
  if (gathered != nullptr && gathered->model != nullptr)
    held_[process][Component::staging] += bytes_of(gathered->precision.weights, gathered->model->parameters());
  consider(total());
  held_[process] = times(now, gpus_);
  consider(total());
}

void NodeHost::engine(std::size_t process, Bytes bytes) {
  Breakdown held;
  held[Component::engine_weights] = bytes * gpus_;
  held_[process] = held;
  consider(total());
}

void NodeHost::loading(const Role& role) {
  if (role.model == nullptr) return;
  if (role.model_in_shared_memory && shared_.insert(role.model).second)
    processes_[Component::staging] += bytes_of(role.model->dtype, role.model->parameters());
  const Bytes whole = bytes_of(role.precision.weights, role.model->parameters());
  const std::int64_t group = std::max<std::int64_t>(1, shard_group_size(job_, role));
  Breakdown now = total();
  now[Component::staging] += whole * (role.loads_on_every_rank ? gpus_ : ceil_div(gpus_, group));
  consider(now);
}

Breakdown NodeHost::total() const {
  Breakdown sum = processes_;
  for (const auto& [process, bytes] : held_) sum += bytes;
  return sum;
}

void NodeHost::consider(const Breakdown& bytes) {
  if (bytes.total() > peak_.total()) peak_ = bytes;
}

Breakdown NodeHost::take_peak() {
  const Breakdown peak = peak_;
  peak_ = total();
  return peak;
}

}  // namespace headroom
