#include "validator/kernels/softmax.h"

#include <map>

#include "tests/validator/gpu/gpu_test.h"

namespace headroom::gpu {
namespace {

class SoftmaxTest : public GpuKernelTest {
 protected:
  struct Reference {
    std::vector<double> probability, log, logsumexp, entropy;
  };
  static Reference reference(const std::vector<double>& x, std::int64_t rows, std::int64_t columns) {
    Reference out{.probability = x, .log = x, .logsumexp = {}, .entropy = {}};
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto from = static_cast<std::size_t>(r * columns), to = from + static_cast<std::size_t>(columns);
      double top = -1e300, sum = 0, h = 0;
      for (auto i = from; i < to; ++i) top = std::max(top, x[i]);
      for (auto i = from; i < to; ++i) sum += std::exp(x[i] - top);
      const double lse = top + std::log(sum);
      for (auto i = from; i < to; ++i) {
        out.log[i] = x[i] - lse;
        out.probability[i] = std::exp(x[i] - lse);
        h -= out.probability[i] * out.log[i];
      }
      out.logsumexp.push_back(lse);
      out.entropy.push_back(h);
    }
    return out;
  }
  // Short rows (more than run at once), an odd length, and lengths that need clusters of two, eight and
  // sixteen blocks in fp32.
  static std::vector<Rows> shapes(DType dtype) {
    return {{dtype, 1300, 32}, {dtype, 11, 1003}, {dtype, 5, 50304}, {dtype, 40, 151936}, {dtype, 2, 256000}};
  }
};
HEADROOM_ALL_FLOATS(SoftmaxTest);

TEST_P(SoftmaxTest, ForwardAndBackwardMatchTheReference) {
  for (const Rows& shape : shapes(dtype())) {
    const std::int64_t n = shape.rows * shape.columns;
    auto x = normal(n, 2), d = normal(n);
    const DeviceArray ax(dtype(), x), ad(dtype(), d);
    const Reference want = reference(x, shape.rows, shape.columns);
    for (bool log : {false, true}) {
      const DeviceArray y(dtype(), n), dx(dtype(), n);
      EXPECT_OK(softmax(shape, log, ax.data(), y.data(), stream()));
      EXPECT_OK(softmax_backward(shape, log, y.data(), ad.data(), dx.data(), stream()));
      const auto forward = y.read();
      EXPECT_LT(relative_error(forward, log ? want.log : want.probability), bound())
          << log << " " << shape.columns;
      std::vector<double> expected(x.size());
      for (std::int64_t r = 0; r < shape.rows; ++r) {
        const auto from = static_cast<std::size_t>(r * shape.columns),
                   to = from + static_cast<std::size_t>(shape.columns);
        double sum = 0;
        for (auto i = from; i < to; ++i) sum += d[i] * (log ? 1 : forward[i]);
        for (auto i = from; i < to; ++i) {
          expected[i] = log ? d[i] - std::exp(forward[i]) * sum : forward[i] * (d[i] - sum);
        }
      }
      EXPECT_LT(relative_error(dx.read(), expected), bound()) << log << " " << shape.columns;
    }
  }
}

TEST_P(SoftmaxTest, CrossEntropyAndEntropyMatchTheReference) {
  for (const Rows& shape : shapes(dtype())) {
    const std::int64_t n = shape.rows * shape.columns;
    auto x = normal(n, 2), d = normal(shape.rows);
    auto target = integers(shape.rows, 0, shape.columns - 1);
    target[1] = -100;  // ignored
    const DeviceArray ax(dtype(), x), at(target), d_loss(DType::fp32, d);
    const DeviceArray loss(DType::fp32, shape.rows), lse(DType::fp32, shape.rows), h(DType::fp32, shape.rows),
        dx(dtype(), n);
    EXPECT_OK(
        cross_entropy(shape, ax.data(), at.as<std::int64_t>(), loss.as<float>(), lse.as<float>(), stream()));
    EXPECT_OK(cross_entropy_backward(shape, ax.data(), at.as<std::int64_t>(), lse.as<float>(),
                                     d_loss.as<float>(), dx.data(), stream()));
    EXPECT_OK(entropy(shape, ax.data(), h.as<float>(), stream()));
    const Reference want = reference(x, shape.rows, shape.columns);
    std::vector<double> losses, gradient = want.probability;
    for (std::int64_t r = 0; r < shape.rows; ++r) {
      const auto from = static_cast<std::size_t>(r * shape.columns), row = static_cast<std::size_t>(r);
      const bool ignored = target[row] < 0;
      losses.push_back(ignored ? 0 : -want.log[from + static_cast<std::size_t>(target[row])]);
      if (!ignored) gradient[from + static_cast<std::size_t>(target[row])] -= 1;
      for (auto i = from; i < from + static_cast<std::size_t>(shape.columns); ++i)
        gradient[i] *= ignored ? 0 : d[row];
    }
    EXPECT_LT(relative_error(lse.read(), want.logsumexp), 1e-5);
    EXPECT_LT(relative_error(loss.read(), losses), 1e-5);
    EXPECT_LT(relative_error(h.read(), want.entropy), 1e-4);
    EXPECT_LT(relative_error(dx.read(), gradient), bound());
  }
}

TEST_P(SoftmaxTest, SamplesFollowTheDistribution) {
  const std::int64_t rows = 20'000;
  const std::vector<double> weights = {0.1, 0.2, 0.3, 0.4};
  std::vector<double> x;
  for (std::int64_t i = 0; i < rows * 4; ++i) x.push_back(std::log(weights[static_cast<std::size_t>(i % 4)]));
  const DeviceArray ax(dtype(), x), token(DType::int64, rows), largest(DType::int64, rows);
  EXPECT_OK(sample({dtype(), rows, 4}, ax.data(), 1.0f, seed_, token.as<std::int64_t>(), stream()));
  EXPECT_OK(sample({dtype(), rows, 4}, ax.data(), 0.0f, seed_, largest.as<std::int64_t>(), stream()));
  std::map<double, double> share;
  for (double t : token.read()) share[t] += 1.0 / static_cast<double>(rows);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(share[static_cast<double>(i)], weights[i], 0.02);
  EXPECT_THAT(largest.read(), ::testing::Each(3.0));
}

}  // namespace
}  // namespace headroom::gpu
