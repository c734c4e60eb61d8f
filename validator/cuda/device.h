#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "models/base/bytes.h"
#include "models/base/result.h"

namespace headroom::gpu {

/// The card a process works on.
struct Card {
  int ordinal = 0;
  std::string name;        ///< as the driver reports it: `NVIDIA H100 80GB HBM3`
  std::string pci_bus_id;  ///< `0000:3b:00.0`
  int compute_major = 0, compute_minor = 0, multiprocessors = 0;
  Bytes memory = 0;  ///< total as cudaMemGetInfo reports it
  Bytes l2 = 0;
  int driver_cuda = 0, runtime_cuda = 0;  ///< 13000 for 13.0
};

/// Cards visible to this process; an error (one sentence, the user's environment) without a driver, with one
/// too old for this build, or without a card.
Result<int> card_count();
/// The same from what the runtime answered: its code, the number of cards, and the CUDA versions (13000
/// for 13.0) of the driver (0: none) and of the runtime.
Result<int> cards_or_reason(cudaError_t code, int count, int driver_cuda, int runtime_cuda);

/// Makes card `ordinal` current in this thread, creating its context, and describes it. An error where it is
/// older than compute capability 9.0, for which this build holds no machine code, and where others leave it
/// no room for a context.
Result<Card> open_card(int ordinal);

/// cudaMemGetInfo of the current card: used = total - free, all processes together.
struct DeviceUse {
  Bytes used = 0, total = 0;
};
Result<DeviceUse> device_use();

}  // namespace headroom::gpu
