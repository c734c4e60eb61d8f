#include "simulator/time/kernel_seconds.h"

#include <gtest/gtest.h>

#include "simulator/hardware/library.h"

namespace headroom {
namespace {

const Hardware& h200() {
  static const Hardware kCard = *find_hardware("h200");
  return kCard;
}

void expect_within(double predicted, double measured, double factor, const char* what) {
  EXPECT_LT(predicted, measured * factor) << what;
  EXPECT_GT(predicted, measured / factor) << what;
}

// validator/results/h200-2026-11-28-3/kernels.json.
TEST(KernelSeconds, OfAttentionFollowMeasurements) {
  struct Row {
    std::int64_t batch, heads, length, dim;
    double forward, backward;
  };
  for (const Row& row : {Row{4, 32, 512, 64, 23.2e-6, 106e-6},
                         {8, 32, 1024, 64, 105e-6, 434e-6},
                         {4, 32, 1024, 128, 83e-6, 355e-6},
                         {4, 32, 2048, 128, 258e-6, 938e-6},
                         {1, 32, 16384, 128, 3297e-6, 10475e-6}}) {
    const double flops = 2.0 * static_cast<double>(row.batch * row.heads * row.length * row.length * row.dim);
    const Bytes bytes = 4 * row.batch * row.heads * row.length * row.dim * 2;
    expect_within(
        attention_seconds(h200(), DType::bf16, flops, bytes, row.length, row.length, row.dim, false),
        row.forward, 1.25, "forward");
    expect_within(
        attention_seconds(h200(), DType::bf16, 2.5 * flops, 2 * bytes, row.length, row.length, row.dim, true),
        row.backward, 1.3, "backward");
  }
}

TEST(KernelSeconds, OfMemoryBoundKindsFollowMeasurements) {
  const auto seconds = [](OperationKind kind, Bytes bytes, KernelForm form = KernelForm::forward) {
    Operation o;
    o.kind = kind;
    o.bytes = bytes;
    return kernel_seconds(o, form, h200(), 8);
  };
  expect_within(seconds(OperationKind::elementwise, 1610612736), 366.8e-6, 1.1, "add");
  expect_within(seconds(OperationKind::elementwise, 100663296), 26.0e-6, 1.2, "add");
  expect_within(seconds(OperationKind::softmax, 2 * 4096L * 151936 * 4), 2380e-6, 1.1, "log_softmax");
  expect_within(seconds(OperationKind::softmax, 3 * 4096L * 151936 * 4, KernelForm::backward), 2468e-6, 1.1,
                "log_softmax backward");
  expect_within(seconds(OperationKind::cross_entropy, 2 * 4096L * 151936 * 4), 2386e-6, 1.1, "cross_entropy");
  expect_within(seconds(OperationKind::optimizer, 7 * 16L * (1 << 24) * 4, KernelForm::foreach_step), 6180e-6,
                1.25, "foreach");
  expect_within(seconds(OperationKind::optimizer, 7 * 16L * (1 << 24) * 4, KernelForm::fused_step), 2337e-6,
                1.25, "fused");
}

TEST(KernelSeconds, TellFormsByName) {
  EXPECT_EQ(kernel_form("MmBackward0"), KernelForm::backward);
  EXPECT_EQ(kernel_form("aten::_foreach_adamw_"), KernelForm::foreach_step);
  EXPECT_EQ(kernel_form("aten::mm"), KernelForm::forward);
}

// validator/results/2xh200-2026-11-29/kernels.json: GPT-2's head on 4,096 tokens, and a gradient of it.
TEST(KernelSeconds, OfProductsFallWhereRowsAreNotAligned) {
  Operation o;
  o.kind = OperationKind::matmul;
  o.by_element = true;
  o.flops = 2.0 * 4096 * 50257 * 1024;
  o.bytes = 2 * (4096 * 1024 + 50257 * 1024 + 4096 * 50257);
  const Operand operand{.dtype = DType::bf16};
  o.inputs = {&operand, 1};
  expect_within(kernel_seconds(o, KernelForm::forward, h200(), 8), 4.37e-3, 1.1, "forward");
  expect_within(kernel_seconds(o, KernelForm::backward, h200(), 8), 2.95e-3, 1.1, "backward");
  o.by_element = false;
  EXPECT_LT(kernel_seconds(o, KernelForm::forward, h200(), 8), 0.7e-3);
}

// The same passes: logits without their last row, rotary halves joined, products with a norm's weight.
TEST(KernelSeconds, OfStridedOperandsGoByElements) {
  const auto seconds = [](OperationKind kind, std::int64_t elements, std::size_t inputs) {
    Operation o;
    o.kind = kind;
    o.by_element = true;
    const Operand operand{.dtype = DType::bf16, .elements = elements};
    const Operand all[] = {operand, operand};
    o.inputs = {all, inputs};
    o.outputs = {all, 1};
    o.bytes = 4 * elements;
    return kernel_seconds(o, KernelForm::forward, h200(), 8);
  };
  expect_within(seconds(OperationKind::copy, 4092LL * 128256, 1), 1.196e-3, 1.1, "copy");
  expect_within(seconds(OperationKind::copy, 4096 * 2048, 2), 37e-6, 1.15, "cat");
  expect_within(seconds(OperationKind::elementwise, 4096 * 2048, 2), 23e-6, 1.2, "mul");
}

}  // namespace
}  // namespace headroom
