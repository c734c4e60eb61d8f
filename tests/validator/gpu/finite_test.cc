#include "validator/kernels/finite.h"

#include "tests/validator/gpu/gpu_test.h"

namespace headroom::gpu {
namespace {

class FiniteTest : public GpuKernelTest {};
HEADROOM_ALL_FLOATS(FiniteTest);

TEST_P(FiniteTest, NormsAreTakenInDoublePrecision) {
  for (const std::int64_t n : {1, 1000, 300'001}) {
    auto x = normal(n);
    const DeviceArray ax(dtype(), x), wide(DType::fp64, n), out(DType::fp64, 1);
    EXPECT_OK(widen(ax.data(), dtype(), wide.as<double>(), n, stream()));
    EXPECT_EQ(wide.read(), x);
    EXPECT_OK(norm(wide.as<double>(), n, out.as<double>(), stream()));
    double squares = 0;
    for (const double v : x) squares += v * v;
    EXPECT_NEAR(out.read()[0] / std::sqrt(squares), 1, 1e-12);
  }
}

TEST_P(FiniteTest, FindsWhatIsNotFinite) {
  constexpr std::int64_t n = 4099;
  auto x = normal(n);
  std::vector<double> nan(n), infinite(n), any(n);
  for (const std::int64_t i : integers(20, 0, n - 1)) x[static_cast<std::size_t>(i)] = std::nan("");
  for (const std::int64_t i : integers(20, 0, n - 1)) x[static_cast<std::size_t>(i)] = -INFINITY;
  for (std::size_t i = 0; i < x.size(); ++i) {
    nan[i] = std::isnan(x[i]);
    infinite[i] = std::isinf(x[i]);
    any[i] = nan[i] + infinite[i];
  }
  const DeviceArray ax(dtype(), x), is_nan(DType::uint8, n), is_infinite(DType::uint8, n),
      out(DType::uint8, n);
  EXPECT_OK(ask(Ask::is_nan, ax.data(), dtype(), is_nan.as<std::uint8_t>(), n, stream()));
  EXPECT_OK(ask(Ask::is_infinite, ax.data(), dtype(), is_infinite.as<std::uint8_t>(), n, stream()));
  EXPECT_OK(
      either(is_nan.as<std::uint8_t>(), is_infinite.as<std::uint8_t>(), out.as<std::uint8_t>(), n, stream()));
  EXPECT_EQ(is_nan.read(), nan);
  EXPECT_EQ(is_infinite.read(), infinite);
  EXPECT_EQ(out.read(), any);
}

}  // namespace
}  // namespace headroom::gpu
