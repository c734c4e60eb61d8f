#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/base/bytes.h"
#include "models/base/dtype.h"
#include "models/base/result.h"
#include "models/document/document.h"

namespace headroom::gpu {

/// Device memory outside every allocator after one action of a process, and what that action added.
struct MemoryPoint {
  std::string action;  ///< context, first kernel, cublas handle, nccl group 2 …
  Bytes used = 0;      ///< of the whole card, by cudaMemGetInfo
  Bytes added = 0;
};

/// One timed piece of work.
struct RatePoint {
  std::string kind;   ///< matrix, attention forward, copy, host to device, all_reduce …
  std::string shape;  ///< for people: `8192x4096x11008`
  DType dtype = DType::bf16;
  double flops = 0;    ///< of the work; 0 where bytes decide
  double bytes = 0;    ///< read plus written on the device; payload of transfers and collectives
  double seconds = 0;  ///< median
};

/// What one machine gave, as measured.
struct Measurements {
  std::string gpu;  ///< as the driver reports it
  int gpus = 1;     ///< ranks that measured collectives
  int multiprocessors = 0;
  Bytes total_memory = 0, granularity = 0, host_memory = 0;
  Bytes used_by_others = 0;                     ///< on the card before this process began
  std::map<std::string, std::string> versions;  ///< driver, cuda, cublas, nccl
  std::vector<MemoryPoint> memory;
  std::vector<RatePoint> rates;
  std::string host;                            ///< the processor and its cores; empty: not measured
  std::map<std::string, double> host_seconds;  ///< of pieces of Python and dispatch (profile/host_times.h)
  std::vector<std::string> notes;  ///< what could not be measured, and why
};

/// As JSON (`headroom.measurements/1`), integers in bytes.
std::string to_json(const Measurements& measurements);
/// That JSON back. Errors name FILE:LINE and key.
Result<Measurements> read_measurements(const Document& document, const std::string& file);

}  // namespace headroom::gpu
