#include "simulator/time/host_thread.h"

#include <gtest/gtest.h>

#include "simulator/hardware/library.h"
#include "simulator/tape/core/names.h"

namespace headroom {
namespace {

double seconds(const char* name) {
  static const Hardware kCard = find_hardware("h200").value();
  HostThread thread(kCard.host_times);
  Operation o;
  o.kind = OperationKind::all_gather;
  o.label.operation = tape::operation_name(name);
  return thread.operation(o);
}

// FSDP2 handles a unit's parameters one by one, FSDP1 as one tensor: units of single small layers are common
// there (verl wraps every adapter).
TEST(HostThread, TellsUnitsOfFlatParametersApart) {
  EXPECT_GT(seconds("fsdp::all_gather_output"), 1e-3);
  EXPECT_LT(seconds("fsdp1::all_gather"), 0.25e-3);
  EXPECT_GT(seconds("fsdp1::all_gather"), seconds("aten::add"));
}

}  // namespace
}  // namespace headroom
