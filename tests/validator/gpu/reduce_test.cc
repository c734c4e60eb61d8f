#include "validator/kernels/reduce.h"

#include "tests/validator/gpu/gpu_test.h"

namespace headroom::gpu {
namespace {

class ReduceTest : public GpuKernelTest {};
HEADROOM_ALL_FLOATS(ReduceTest);

TEST_P(ReduceTest, WholeArrays) {
  for (std::int64_t n : {1, 1000, 300'001}) {
    auto x = normal(n);
    for (double& v : x) v -= 3;  // the largest is often negative
    const DeviceArray ax(dtype(), x), out(DType::fp32, 1);
    double sum = 0, squares = 0, top = -1e300;
    for (double v : x) {
      sum += v;
      squares += v * v;
      top = std::max(top, v);
    }
    EXPECT_OK(reduce_all(Reduce::sum, ax.data(), dtype(), n, out.as<float>(), false, stream()));
    EXPECT_NEAR(out.read()[0] / sum, 1, 1e-5);
    EXPECT_OK(reduce_all(Reduce::sum_of_squares, ax.data(), dtype(), n, out.as<float>(), true, stream()));
    EXPECT_NEAR(out.read()[0] / (sum + squares), 1, 1e-4);
    EXPECT_OK(reduce_all(Reduce::maximum, ax.data(), dtype(), n, out.as<float>(), false, stream()));
    EXPECT_FLOAT_EQ(static_cast<float>(out.read()[0]), static_cast<float>(top));
  }
}

TEST_P(ReduceTest, RowsAndColumns) {
  for (auto [rows, columns] : {std::pair{70, 33}, {5, 4096}, {2000, 96}}) {
    auto x = normal(static_cast<std::int64_t>(rows) * columns);
    const DeviceArray ax(dtype(), x), by_row(DType::fp32, rows), by_column(dtype(), columns);
    EXPECT_OK(
        reduce_rows(Reduce::sum_of_squares, ax.data(), dtype(), rows, columns, by_row.as<float>(), stream()));
    EXPECT_OK(sum_columns(ax.data(), dtype(), rows, columns, by_column.data(), stream()));
    std::vector<double> want_rows(static_cast<std::size_t>(rows)),
        want_columns(static_cast<std::size_t>(columns));
    for (std::size_t i = 0; i < x.size(); ++i) {
      want_rows[i / want_columns.size()] += x[i] * x[i];
      want_columns[i % want_columns.size()] += x[i];
    }
    EXPECT_LT(relative_error(by_row.read(), want_rows), 1e-5);
    EXPECT_LT(relative_error(by_column.read(), want_columns), bound());
  }
}

}  // namespace
}  // namespace headroom::gpu
