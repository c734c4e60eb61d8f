#include "validator/kernels/norm.h"

#include "tests/validator/gpu/gpu_test.h"

namespace headroom::gpu {
namespace {

struct Case {
  NormKind kind;
  std::int64_t rows, columns;
};

class NormTest : public GpuKernelTest {
 protected:
  // One pack a thread, several, a row that is no multiple of a pack, more rows than blocks of partial sums.
  static std::vector<Case> cases() {
    std::vector<Case> all;
    for (NormKind kind : {NormKind::rms, NormKind::layer}) {
      for (auto [rows, columns] : {std::pair{3, 64}, {17, 4096}, {700, 1000}, {9, 333}, {5, 8192}}) {
        all.push_back({kind, rows, columns});
      }
    }
    return all;
  }
};
HEADROOM_ALL_FLOATS(NormTest);

TEST_P(NormTest, ForwardAndBackwardMatchTheReference) {
  for (const Case& c : cases()) {
    const std::int64_t n = c.rows * c.columns;
    const bool layer = c.kind == NormKind::layer;
    auto x = normal(n), w = normal(c.columns), b = normal(c.columns), d = normal(n);
    for (double& v : x) v += 0.5;
    const DeviceArray ax(dtype(), x), aw(dtype(), w), ab(dtype(), b), ad(dtype(), d);
    const DeviceArray y(dtype(), n), mean(DType::fp32, c.rows), rstd(DType::fp32, c.rows), dx(dtype(), n),
        dw(dtype(), c.columns), db(dtype(), c.columns);
    const DeviceArray workspace(DType::uint8, norm_backward_workspace(c.kind, c.columns));
    EXPECT_OK(norm_forward({.kind = c.kind,
                            .dtype = dtype(),
                            .rows = c.rows,
                            .columns = c.columns,
                            .epsilon = 1e-5f,
                            .x = ax.data(),
                            .weight = aw.data(),
                            .bias = layer ? ab.data() : nullptr,
                            .y = y.data(),
                            .mean = mean.as<float>(),
                            .rstd = rstd.as<float>()},
                           stream()));
    EXPECT_OK(norm_backward({.kind = c.kind,
                             .dtype = dtype(),
                             .rows = c.rows,
                             .columns = c.columns,
                             .x = ax.data(),
                             .weight = aw.data(),
                             .d_y = ad.data(),
                             .mean = mean.as<float>(),
                             .rstd = rstd.as<float>(),
                             .d_x = dx.data(),
                             .d_weight = dw.data(),
                             .d_bias = layer ? db.data() : nullptr,
                             .workspace = workspace.data()},
                            stream()));
    std::vector<double> ey(x.size()), edx(x.size()), edw(w.size()), edb(w.size());
    for (std::int64_t r = 0; r < c.rows; ++r) {
      const double* row = &x[static_cast<std::size_t>(r * c.columns)];
      const double* dy = &d[static_cast<std::size_t>(r * c.columns)];
      const auto columns = static_cast<double>(c.columns);
      double m = 0, s = 0, sum = 0, dot = 0;
      for (std::size_t i = 0; layer && i < w.size(); ++i) m += row[i] / columns;
      for (std::size_t i = 0; i < w.size(); ++i) s += (row[i] - m) * (row[i] - m) / columns;
      const double inverse = 1 / std::sqrt(s + 1e-5);
      for (std::size_t i = 0; i < w.size(); ++i) {
        const double xhat = (row[i] - m) * inverse;
        ey[static_cast<std::size_t>(r * c.columns) + i] = xhat * w[i] + (layer ? b[i] : 0);
        edw[i] += dy[i] * xhat;
        edb[i] += dy[i];
        sum += layer ? dy[i] * w[i] / columns : 0;
        dot += dy[i] * w[i] * xhat / columns;
      }
      for (std::size_t i = 0; i < w.size(); ++i) {
        edx[static_cast<std::size_t>(r * c.columns) + i] =
            inverse * (dy[i] * w[i] - sum - (row[i] - m) * inverse * dot);
      }
    }
    const std::string at = std::to_string(c.rows) + "x" + std::to_string(c.columns);
    EXPECT_LT(relative_error(y.read(), ey), bound()) << at;
    EXPECT_LT(relative_error(dx.read(), edx), bound()) << at;
    EXPECT_LT(relative_error(dw.read(), edw), bound()) << at;
    if (layer) {
      EXPECT_LT(relative_error(db.read(), edb), bound()) << at;
    }
  }
}

TEST_P(NormTest, RowsBeyondRegistersAreRefused) {
  const DeviceArray x(dtype(), 8);
  const auto status = norm_forward(
      {.dtype = dtype(), .rows = 1, .columns = 1'000'000, .x = x.data(), .weight = x.data(), .y = x.data()},
      stream());
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, ::testing::HasSubstr("1000000"));
}

}  // namespace
}  // namespace headroom::gpu
