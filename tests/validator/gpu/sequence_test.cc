#include "validator/kernels/sequence.h"

#include "tests/validator/gpu/gpu_test.h"
#include "validator/kernels/transfer.h"

namespace headroom::gpu {
namespace {

class SequenceTest : public GpuKernelTest {};
HEADROOM_ALL_FLOATS(SequenceTest);

TEST_P(SequenceTest, RowsAreGatheredAndTheirGradientsAdded) {
  for (std::int64_t columns : {6, 128}) {
    const std::int64_t rows = 50, count = 333;
    auto table = normal(rows * columns), d = normal(count * columns);
    auto index = integers(count, 0, rows - 1);
    index[7] = -1;  // padding
    const DeviceArray at(dtype(), table), ai(index), ad(dtype(), d), out(dtype(), count * columns),
        dt(dtype(), rows * columns);
    EXPECT_OK(
        gather_rows(at.data(), rows, ai.as<std::int64_t>(), count, columns, dtype(), out.data(), stream()));
    EXPECT_OK(fill(dt.data(), 0, dtype(), rows * columns, stream()));
    EXPECT_OK(scatter_add_rows(ad.data(), ai.as<std::int64_t>(), count, columns, dtype(), dt.data(), rows,
                               stream()));
    std::vector<double> gathered, added(table.size());
    for (std::size_t i = 0; i < index.size(); ++i) {
      for (std::size_t c = 0; c < static_cast<std::size_t>(columns); ++c) {
        const std::size_t t = static_cast<std::size_t>(index[i] * columns) + c;
        gathered.push_back(index[i] < 0 ? 0 : table[t]);
        if (index[i] >= 0) added[t] += d[i * static_cast<std::size_t>(columns) + c];
      }
    }
    EXPECT_EQ(relative_error(out.read(), gathered), 0);
    EXPECT_LT(relative_error(dt.read(), added), 2 * bound());  // additions round in the dtype
  }
}

TEST_P(SequenceTest, ElementsAreGathered) {
  auto x = normal(40 * 9);
  const auto index = integers(40, 0, 8);
  const DeviceArray ax(dtype(), x), ai(index), out(dtype(), 40);
  EXPECT_OK(gather_elements(ax.data(), ai.as<std::int64_t>(), 40, 9, dtype(), out.data(), stream()));
  std::vector<double> expected;
  for (std::size_t r = 0; r < 40; ++r) expected.push_back(x[r * 9 + static_cast<std::size_t>(index[r])]);
  EXPECT_EQ(relative_error(out.read(), expected), 0);
}

TEST_P(SequenceTest, RotaryTurnsPairsAndBack) {
  for (std::int64_t head_dim : {12, 64, 128}) {
    const std::int64_t tokens = 37, heads = 3, n = tokens * heads * head_dim;
    auto x = normal(n);
    const auto position = integers(tokens, 0, 400);
    const DeviceArray ax(dtype(), x), ap(position), y(dtype(), n), back(dtype(), n);
    Rotary r{.dtype = dtype(),
             .tokens = tokens,
             .heads = heads,
             .head_dim = head_dim,
             .position = ap.as<std::int64_t>(),
             .base = 500000.0f,
             .x = ax.data(),
             .y = y.data()};
    EXPECT_OK(rotary(r, stream()));
    r.x = y.data();
    r.y = back.data();
    r.inverse = true;
    EXPECT_OK(rotary(r, stream()));
    std::vector<double> expected(x.size());
    const auto half = static_cast<std::size_t>(head_dim / 2);
    for (std::size_t row = 0; row < static_cast<std::size_t>(tokens * heads); ++row) {
      for (std::size_t i = 0; i < half; ++i) {
        const double p = static_cast<double>(position[row / static_cast<std::size_t>(heads)]);
        const double angle =
            p * std::pow(500000.0, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
        const std::size_t low = row * 2 * half + i, high = low + half;
        expected[low] = x[low] * std::cos(angle) - x[high] * std::sin(angle);
        expected[high] = x[high] * std::cos(angle) + x[low] * std::sin(angle);
      }
    }
    // An angle of up to 400 radians in fp32 is off by 400 * 2^-23.
    EXPECT_LT(relative_error(y.read(), expected), bound() + 1e-4) << head_dim;
    EXPECT_LT(relative_error(back.read(), x), 2 * bound() + 1e-4) << head_dim;
  }
}

}  // namespace
}  // namespace headroom::gpu
