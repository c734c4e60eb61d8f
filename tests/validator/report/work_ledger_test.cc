#include "validator/work_ledger.h"

#include <gmock/gmock.h>

#include "simulator/hardware/library.h"
#include "simulator/tape/core/names.h"

namespace headroom::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class WorkLedgerTest : public ::testing::Test {
 protected:
  Operation operation(OperationKind kind, const char* name, Bytes bytes) {
    Operation one;
    one.kind = kind;
    one.bytes = bytes;
    one.label.operation = tape::operation_name(name);
    return one;
  }
  /// `count` operations done that way, of a name of their own, whose block holds `held`.
  void work(const char* name, Done done, Bytes bytes, Bytes held, int count = 1) {
    const Operation one = operation(OperationKind::elementwise, name, bytes);
    for (int i = 0; i < count; ++i) {
      const WorkLedger::Entry entry = ledger_.did(one, done);
      ledger_.took(entry, held);
      ledger_.gave(entry, held);
    }
  }

  const Hardware hardware_ = *find_hardware("h100");
  WorkLedger ledger_{hardware_};
};

TEST_F(WorkLedgerTest, CountsByKindHowOperationsWereDone) {
  ledger_.did(operation(OperationKind::matmul, "ledger::mm", 100), Done::kernel);
  ledger_.did(operation(OperationKind::optimizer, "ledger::adam", 0), Done::host, 28);
  ledger_.did(operation(OperationKind::all_gather, "ledger::gather", 8), Done::alone);
  ledger_.did(operation(OperationKind::copy, "ledger::copy", 2), Done::touched);
  const WorkSummary summary = ledger_.summary();
  EXPECT_EQ(summary.kinds.size(), 4u);
  EXPECT_EQ(summary.kinds.at("optimizer").host, 1);
  EXPECT_EQ(summary.kinds.at("optimizer").bytes, 28);
  EXPECT_EQ(summary.kinds.at("all_gather").alone, 1);
  EXPECT_EQ(summary.kinds.at("copy").touched, 1);
  EXPECT_EQ(summary.total().operations, 4);
  EXPECT_EQ(summary.total().touched, 1);
  EXPECT_EQ(summary.touched, (std::map<std::string, std::int64_t>{{"ledger::copy", 1}}));
}

// What blocks of a name hold at once counts, not what passed through them.
TEST_F(WorkLedgerTest, RanksByWhatIsHeldAtOnceAndBySeconds) {
  work("ledger::small often", Done::kernel, 64 * kMiB, kMiB, 100);
  work("ledger::large once", Done::kernel, 64 * kMiB, 2 * kMiB);
  const WorkSummary summary = ledger_.summary();
  ASSERT_EQ(summary.by_memory.size(), 2u);
  EXPECT_EQ(summary.by_memory[0].name, "ledger::large once");
  EXPECT_EQ(summary.by_memory[0].held, 2 * kMiB);
  EXPECT_EQ(summary.by_time[0].name, "ledger::small often");
  EXPECT_GT(summary.by_time[0].seconds, 50 * summary.by_time[1].seconds);
}

TEST_F(WorkLedgerTest, NamesTheHeaviestWithoutAKernel) {
  for (int i = 0; i < 10; ++i)
    work(("ledger::kernel " + std::to_string(i)).c_str(), Done::kernel, (100 + i) * kMiB, (100 + i) * kMiB);
  work("ledger::light", Done::touched, kMiB, kMiB);
  EXPECT_THAT(ledger_.summary().heaviest_touched(), IsEmpty());
  work("ledger::holds much", Done::touched, kMiB, kGiB);
  EXPECT_THAT(ledger_.summary().heaviest_touched(), ElementsAre("ledger::holds much"));
  work("ledger::takes long", Done::touched, kGiB, kMiB);
  EXPECT_THAT(ledger_.summary().heaviest_touched(), ElementsAre("ledger::holds much", "ledger::takes long"));
  EXPECT_EQ(ledger_.summary().by_memory.size(), 10u);
}

// A name's large operations with a kernel do not make its small ones without one heavy.
TEST_F(WorkLedgerTest, KeepsOperationsOfANameWithAndWithoutAKernelApart) {
  for (int i = 0; i < 10; ++i)
    work(("ledger::other " + std::to_string(i)).c_str(), Done::kernel, 100 * kMiB, 100 * kMiB);
  work("ledger::both", Done::kernel, kGiB, kGiB);
  work("ledger::both", Done::touched, kMiB, kMiB, 3);
  const WorkSummary summary = ledger_.summary();
  EXPECT_THAT(summary.heaviest_touched(), IsEmpty());
  EXPECT_EQ(summary.touched, (std::map<std::string, std::int64_t>{{"ledger::both", 3}}));
  EXPECT_EQ(summary.by_memory[0].name, "ledger::both");
  EXPECT_EQ(summary.by_memory[0].operations, 1);
}

}  // namespace
}  // namespace headroom::gpu
