#include "validator/cuda/cublas.h"

#include "tests/validator/gpu/gpu_test.h"

namespace headroom::gpu {
namespace {

class CublasTest : public GpuKernelTest {};
HEADROOM_ALL_FLOATS(CublasTest);

TEST_P(CublasTest, ProductsMatchTheReferenceInEveryOrientation) {
  auto cublas = Cublas::create();
  if (!cublas) GTEST_SKIP() << cublas.error().text();
  const DeviceArray workspace(DType::uint8, default_cublas_workspace(9));
  EXPECT_OK(cublas->bind(stream(), workspace.data(), workspace.bytes()));
  const std::int64_t m = 24, n = 40, k = 56, batch = 3;
  for (bool ta : {false, true}) {
    for (bool tb : {false, true}) {
      auto a = normal(batch * m * k), b = normal(batch * k * n), d = normal(batch * m * n);
      const DeviceArray aa(dtype(), a), ab(dtype(), b), out(dtype(), d);
      EXPECT_OK(cublas->multiply({.a = aa.data(),
                                  .b = ab.data(),
                                  .d = out.data(),
                                  .dtype = dtype(),
                                  .m = m,
                                  .n = n,
                                  .k = k,
                                  .batch = batch,
                                  .transpose_a = ta,
                                  .transpose_b = tb,
                                  .accumulate = ta}));
      std::vector<double> expected(d.size());
      for (std::int64_t i = 0; i < batch * m * n; ++i) {
        const std::int64_t matrix = i / (m * n), row = i / n % m, column = i % n;
        double sum = ta ? d[static_cast<std::size_t>(i)] : 0;
        for (std::int64_t e = 0; e < k; ++e) {
          const std::int64_t left = matrix * m * k + (ta ? e * m + row : row * k + e);
          const std::int64_t right = matrix * k * n + (tb ? column * k + e : e * n + column);
          sum += a[static_cast<std::size_t>(left)] * b[static_cast<std::size_t>(right)];
        }
        expected[static_cast<std::size_t>(i)] = sum;
      }
      EXPECT_LT(relative_error(out.read(), expected), bound()) << ta << tb;
    }
  }
}

}  // namespace
}  // namespace headroom::gpu
