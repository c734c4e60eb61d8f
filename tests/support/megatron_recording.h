#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "models/base/result.h"
#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"

namespace headroom::test {

/// What one rank of a recorded Megatron-Core run took in one phase; bytes.
struct MegatronRow {
  int step = 0;
  std::string phase;  ///< init_model, wrap_ddp, init_optimizer, logprob, forward_backward, optimizer_step …
  Bytes peak_allocated = 0, allocated_end = 0, peak_reserved = 0, reserved_end = 0, process_end = 0;
  double seconds = 0;  ///< its own on a host and card that other runs shared
};

/// A recorded run (tests/data/megatron) and the job that it was.
struct MegatronRecording {
  std::string name;
  std::int64_t rank = 0, world = 1;
  bool current_stream = false;  ///< wrapped on the current stream
  bool exchange = false;        ///< its context parallelism is the recorder's own
  std::vector<std::int64_t> buckets;
  std::vector<std::pair<Bytes, Bytes>> buffers;  ///< of parameters, of gradients
  std::vector<MegatronRow> rows;
  Job job;
};

Result<std::vector<MegatronRecording>> megatron_recordings(const std::filesystem::path& file);

/// Predicted less recorded, in parts of what was recorded.
struct MegatronErrors {
  int step = 0;
  std::string phase;  ///< of the recording; training covers forward, backward and optimizer step
  double peak = 0, end = 0, reserved = 0;
  double outside = 0;  ///< of what the process holds beside the allocator at the end
};

/// `recording`'s rank simulated and held against it, phase by phase, without step 0 (whose compilation is
/// timed with real work).
Result<std::vector<MegatronErrors>> megatron_errors(const MegatronRecording& recording);

/// Seconds of a phase from step 1 on: the quickest recorded, for other runs shared the host; training's forward, backward
/// and optimizer step together.
struct MegatronSeconds {
  std::string phase;  ///< logprob, train, offload, reload
  double predicted = 0, measured = 0;
};
Result<std::vector<MegatronSeconds>> megatron_seconds(const MegatronRecording& recording, const Hardware& hardware);

}  // namespace headroom::test
