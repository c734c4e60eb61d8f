#include "simulator/device/process.h"

namespace headroom {

Breakdown process_on_device(const Breakdown& allocated, Bytes reserved, const OutsideAllocator& outside) {
  Breakdown out = allocated;
  out[Component::allocator_slack] += reserved - allocated.total();
  out[Component::context] += outside.context;
  out[Component::communicators] += outside.communicators;
  out[Component::workspaces] += outside.workspaces;
  return out;
}

}  // namespace headroom
