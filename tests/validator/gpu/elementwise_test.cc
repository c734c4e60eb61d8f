#include "validator/kernels/elementwise.h"

#include <functional>

#include "tests/validator/gpu/gpu_test.h"

namespace headroom::gpu {
namespace {

using Function = std::function<double(double)>;
double logistic(double x) {
  return 1 / (1 + std::exp(-x));
}
double silu(double x) {
  return x * logistic(x);
}
double gelu(double x) {
  return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
}
double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double relu(double x) {
  return x > 0 ? x : 0;
}
// Central differences: independent of the derivative that a kernel was written from. Only where the function
// is smooth: across relu's corner a difference is no slope.
double slope(const Function& f, double x) {
  return (f(x + 1e-5) - f(x - 1e-5)) / 2e-5;
}

class ElementwiseTest : public GpuKernelTest {
 protected:
  // Sizes that leave a tail after the packs, fill several, and are smaller than one.
  static std::vector<std::int64_t> sizes() { return {5, 4096, 70001}; }
};
HEADROOM_ALL_FLOATS(ElementwiseTest);

TEST_P(ElementwiseTest, UnaryMatchesTheReference) {
  const std::vector<std::pair<Unary, Function>> all = {
      {Unary::negate, [](double x) { return -x; }},
      {Unary::exponential, [](double x) { return std::exp(x); }},
      {Unary::sigmoid, logistic},
      {Unary::silu, silu},
      {Unary::gelu, gelu},
      {Unary::gelu_tanh, gelu_tanh},
      {Unary::relu, relu},
      {Unary::hyperbolic_tangent, [](double x) { return std::tanh(x); }}};
  for (std::int64_t n : sizes()) {
    auto x = normal(n);
    const DeviceArray in(dtype(), x);
    for (const auto& [kind, f] : all) {
      const DeviceArray out(dtype(), n);
      EXPECT_OK(unary(kind, in.data(), out.data(), dtype(), n, stream()));
      std::vector<double> expected;
      for (double v : x) expected.push_back(f(v));
      EXPECT_LT(relative_error(out.read(), expected), bound()) << static_cast<int>(kind) << " n=" << n;
    }
  }
}

TEST_P(ElementwiseTest, BinaryAndScaledMatchTheReference) {
  for (std::int64_t n : sizes()) {
    auto x = normal(n), y = normal(n);
    for (double& v : y) v += v < 0 ? -0.5 : 0.5;
    const DeviceArray a(dtype(), x), b(dtype(), y), out(dtype(), n);
    std::vector<double> expected(x.size());
    const auto check = [&](const char* what, auto f) {
      for (std::size_t i = 0; i < x.size(); ++i) expected[i] = f(x[i], y[i]);
      EXPECT_LT(relative_error(out.read(), expected), bound()) << what;
    };
    EXPECT_OK(binary(Binary::add, a.data(), b.data(), out.data(), dtype(), n, stream()));
    check("add", [](double p, double q) { return p + q; });
    EXPECT_OK(binary(Binary::multiply, a.data(), b.data(), out.data(), dtype(), n, stream()));
    check("multiply", [](double p, double q) { return p * q; });
    EXPECT_OK(binary(Binary::divide, a.data(), b.data(), out.data(), dtype(), n, stream()));
    check("divide", [](double p, double q) { return p / q; });
    EXPECT_OK(add_scaled(a.data(), b.data(), -0.5f, out.data(), dtype(), n, stream()));
    check("add_scaled", [](double p, double q) { return p - 0.5 * q; });
    EXPECT_OK(scale_shift(a.data(), 2.5f, 1.0f, out.data(), dtype(), n, stream()));
    check("scale_shift", [](double p, double) { return 2.5 * p + 1; });
    EXPECT_OK(swiglu(a.data(), b.data(), out.data(), dtype(), n, stream()));
    check("swiglu", [](double p, double q) { return silu(p) * q; });
  }
}

TEST_P(ElementwiseTest, GradientsAreTheSlopes) {
  const auto of = [](const Function& f) { return [&f](double x) { return slope(f, x); }; };
  const Function smooth[] = {silu, gelu, gelu_tanh};
  const std::vector<std::pair<Activation, Function>> all = {
      {Activation::silu, of(smooth[0])},
      {Activation::gelu, of(smooth[1])},
      {Activation::gelu_tanh, of(smooth[2])},
      {Activation::relu, [](double x) { return x > 0 ? 1.0 : 0.0; }}};
  const std::int64_t n = 12345;
  auto x = normal(n), d = normal(n), u = normal(n);
  // At relu's corner and beside it, where its gradient is 0 from below and at 0.
  x[0] = 0;
  x[1] = -3e-7;
  x[2] = 3e-7;
  const DeviceArray in(dtype(), x), d_out(dtype(), d), up(dtype(), u);
  std::vector<double> expected(x.size()), expected_up(x.size());
  for (const auto& [kind, f] : all) {
    const DeviceArray d_in(dtype(), n);
    EXPECT_OK(activation_backward(kind, in.data(), d_out.data(), d_in.data(), dtype(), n, stream()));
    for (std::size_t i = 0; i < x.size(); ++i) expected[i] = d[i] * f(x[i]);
    EXPECT_LT(relative_error(d_in.read(), expected), bound()) << static_cast<int>(kind);
  }
  const DeviceArray d_gate(dtype(), n), d_up(dtype(), n);
  EXPECT_OK(
      swiglu_backward(in.data(), up.data(), d_out.data(), d_gate.data(), d_up.data(), dtype(), n, stream()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    expected[i] = d[i] * u[i] * slope(silu, x[i]);
    expected_up[i] = d[i] * silu(x[i]);
  }
  EXPECT_LT(relative_error(d_gate.read(), expected), bound());
  EXPECT_LT(relative_error(d_up.read(), expected_up), bound());
}

TEST_P(ElementwiseTest, BiasIsAddedToEveryRow) {
  for (std::int64_t columns : {7, 256}) {
    auto x = normal(33 * columns), b = normal(columns);
    const DeviceArray in(dtype(), x), bias(dtype(), b), out(dtype(), 33 * columns);
    EXPECT_OK(add_bias(in.data(), bias.data(), out.data(), dtype(), 33, columns, stream()));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += b[i % b.size()];
    EXPECT_LT(relative_error(out.read(), x), bound());
  }
}

TEST_P(ElementwiseTest, DropoutKeepsTheRightShareAndItsGradientFollowsTheMask) {
  const std::int64_t n = 100'000;
  auto x = normal(n), d = normal(n);
  const DeviceArray in(dtype(), x), out(dtype(), n), mask(DType::uint8, n), d_out(dtype(), d),
      d_in(dtype(), n);
  EXPECT_OK(dropout(in.data(), out.data(), mask.data(), 0.25f, seed_, dtype(), n, stream()));
  EXPECT_OK(dropout_backward(d_out.data(), mask.data(), d_in.data(), 0.25f, dtype(), n, stream()));
  const auto kept = mask.read();
  double count = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    count += kept[i];
    x[i] *= kept[i] / 0.75;
    d[i] *= kept[i] / 0.75;
  }
  EXPECT_NEAR(count / static_cast<double>(n), 0.75, 0.01);
  EXPECT_LT(relative_error(out.read(), x), bound());
  EXPECT_LT(relative_error(d_in.read(), d), bound());
}

}  // namespace
}  // namespace headroom::gpu
