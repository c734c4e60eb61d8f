#include "validator/memory/gpu_memory.h"

#include <array>
#include <bit>
#include <cmath>

#include "simulator/hardware/library.h"
#include "tests/validator/gpu/gpu_test.h"
#include "validator/host/numbers.h"
#include "validator/kernels/elementwise.h"
#include "validator/kernels/transfer.h"

namespace headroom::gpu {
namespace {

/// A program's memory over the real card, with fp32 tensors of one length.
class GpuMemoryTest : public GpuTest {
 protected:
  static constexpr std::int64_t kElements = 100'003;

  Operand host(HostBlock block, DType dtype = DType::fp32) {
    return {.host = block, .dtype = dtype, .elements = kElements};
  }
  Operand card(Block block, DType dtype = DType::fp32) {
    return {.block = block, .dtype = dtype, .elements = kElements};
  }
  Operation operation(OperationKind kind, std::span<const Operand> in, std::span<const Operand> out) {
    Operation one;
    one.kind = kind;
    one.inputs = in;
    one.outputs = out;
    return one;
  }
};

// Gradients leave the card, the host's Adam works on them, and the parameters come back in two bytes.
TEST_F(GpuMemoryTest, AdamRunsOnTheHostBetweenTransfers) {
  const Hardware hardware = *find_hardware("h100");
  Streams streams;
  WorkLedger ledger(hardware);
  auto device = GpuDevice::create(streams);
  ASSERT_TRUE(device) << device.error().text();
  auto worker = Worker::create(streams);
  ASSERT_TRUE(worker) << worker.error().text();
  SimulatedMemory accounts({}, *device);
  GpuMemory memory(accounts, *device, streams, *worker, ledger);
  const Block ones = memory.allocate(4 * kElements, 0, {}), narrow = memory.allocate(2 * kElements, 0, {});
  const std::array from{card(ones)}, to{card(narrow, DType::bf16)};
  EXPECT_OK(fill(memory.place(from[0]).at, 1.0f, DType::fp32, kElements, stream()));
  std::vector<Operand> states;
  for (const HostKind kind : {HostKind::pinned, HostKind::pageable, HostKind::pageable, HostKind::pageable}) {
    states.push_back(host(memory.allocate_host(4 * kElements, kind, Component::optimizer)));
    memory.run(operation(OperationKind::device_to_host, from, std::span(&states.back(), 1)));
  }
  const std::array updated{states[0], states[2], states[3]};
  memory.run(operation(OperationKind::optimizer, states, updated));
  memory.run(operation(OperationKind::host_to_device, std::span(states).first(1), to));
  memory.synchronize();
  ASSERT_TRUE(memory.error()) << memory.error().error().text();
  // All four were 1: both moments stay, corrected by 0.1 and 0.001.
  const double expected = 1 - 1e-3 * 0.01 - 1e-3 / 0.1 * std::sqrt(0.001);
  std::vector<std::uint16_t> bits(static_cast<std::size_t>(kElements));
  ASSERT_EQ(cudaMemcpy(bits.data(), memory.place(to[0]).at, 2 * bits.size(), cudaMemcpyDeviceToHost),
            cudaSuccess);
  for (const std::uint16_t one : {bits.front(), bits[bits.size() / 2], bits.back()})
    EXPECT_NEAR(static_cast<double>(static_cast<float>(HostBf16(static_cast<float>(expected)))),
                std::bit_cast<float>(static_cast<std::uint32_t>(one) << 16), 1e-6);
  auto* master = reinterpret_cast<const float*>(memory.place(states[0]).at);
  EXPECT_NEAR(master[0], expected, 1e-6);
  EXPECT_NEAR(master[kElements - 1], expected, 1e-6);
  const WorkSummary done = ledger.summary();
  EXPECT_EQ(done.kinds.at("optimizer").host, 1);
  EXPECT_EQ(done.total().touched, 0);
}

}  // namespace
}  // namespace headroom::gpu
