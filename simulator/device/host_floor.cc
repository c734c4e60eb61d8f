#include "simulator/device/host_floor.h"

namespace headroom {
namespace {

constexpr Bytes kTrainerProcess = 4 * kGiB, kEngineProcess = 9 * kGiB / 2, kHelperProcess = 3 * kGiB / 2;
constexpr Bytes kBytesPerToken = 60;
constexpr std::int64_t kBatchCopies = 3;

}  // namespace

Breakdown host_floor(const Job& job) {
  Breakdown out;
  const Pool& pool = job.pools.front();
  for (const Process& process : job.processes) {
    if (const Pool* own = job.pool(process.pool); own != nullptr && own != &pool) continue;
    out[Component::other] += pool.gpus_per_node * (process.engine.empty() ? kTrainerProcess : kEngineProcess);
  }
  out[Component::other] += job.helpers * kHelperProcess;
  out[Component::staging] =
      job.batch.sequences() * job.batch.sequence_length() * kBytesPerToken * kBatchCopies / pool.nodes;
  return out;
}

}  // namespace headroom
