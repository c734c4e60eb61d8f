#include "validator/kernels/transfer.h"

#include "tests/validator/gpu/gpu_test.h"

namespace headroom::gpu {
namespace {

class TransferTest : public GpuKernelTest {};
HEADROOM_ALL_FLOATS(TransferTest);

TEST_P(TransferTest, CastsRoundToNearest) {
  for (std::int64_t n : {3, 10'007}) {
    auto x = normal(n);
    const DeviceArray in(dtype(), x);
    for (DType to : {DType::fp32, DType::fp16, DType::bf16}) {
      const DeviceArray out(to, n);
      EXPECT_OK(cast(in.data(), dtype(), out.data(), to, n, stream()));
      auto expected = x;
      const DeviceArray rounded(to, expected);
      EXPECT_EQ(relative_error(out.read(), expected), 0);
    }
  }
}

TEST_P(TransferTest, PermutesAndCopiesRows) {
  for (auto [a, b, c] : {std::array{37, 65, 1}, {5, 6, 7}, {4, 9, 64}}) {
    const std::int64_t n = static_cast<std::int64_t>(a) * b * c;
    auto x = normal(n);
    const DeviceArray in(dtype(), x), out(dtype(), n), copied(dtype(), n);
    const int size = element_size(dtype());
    EXPECT_OK(permute(in.data(), out.data(), a, b, c, size, stream()));
    EXPECT_OK(copy_rows(in.data(), b * c * size, copied.data(), b * c * size, b * c * size, a, stream()));
    std::vector<double> expected(x.size());
    for (int i = 0; i < a; ++i)
      for (int j = 0; j < b; ++j)
        for (int k = 0; k < c; ++k) {
          expected[static_cast<std::size_t>((j * a + i) * c + k)] =
              x[static_cast<std::size_t>((i * b + j) * c + k)];
        }
    EXPECT_EQ(relative_error(out.read(), expected), 0);
    EXPECT_EQ(relative_error(copied.read(), x), 0);
  }
}

TEST_P(TransferTest, FillsAndRandomNumbers) {
  const std::int64_t n = 50'003;
  const DeviceArray out(dtype(), n), again(dtype(), n);
  EXPECT_OK(fill(out.data(), 1.5f, dtype(), n, stream()));
  EXPECT_THAT(out.read(), ::testing::Each(1.5));
  EXPECT_OK(fill_random(out.data(), -1, 1, seed_, dtype(), n, stream()));
  EXPECT_OK(fill_random(again.data(), -1, 1, seed_, dtype(), n, stream()));
  const auto values = out.read();
  EXPECT_EQ(values, again.read());
  double mean = 0, square = 0;
  for (double v : values) {
    mean += v / static_cast<double>(n);
    square += v * v / static_cast<double>(n);
  }
  EXPECT_NEAR(mean, 0, 0.02);
  EXPECT_NEAR(square, 1.0 / 3, 0.02);
}

TEST_F(GpuTest, TouchWritesEveryByte) {
  const DeviceArray out(DType::uint8, 12'345);
  EXPECT_OK(touch(out.data(), 12'345, stream()));
  EXPECT_THAT(out.read(), ::testing::Each(0.0));
}

}  // namespace
}  // namespace headroom::gpu
