#include "validator/probe_seconds.h"

#include "simulator/phases/device_run.h"

namespace headroom::gpu {

Hardware with_probes_host(Hardware card, double launch) {
  const HostTimes& driver = card.host_times;
  card.host_times = {.launch = launch, .segment = driver.segment, .segment_return = driver.segment_return};
  return card;
}

Result<Report> probes_own_seconds(const Job& job, const Hardware& card, double launch) {
  return run_on_device(job, with_probes_host(card, launch), Fidelity::executed_work);
}

}  // namespace headroom::gpu
