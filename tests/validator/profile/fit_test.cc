#include "validator/profile/fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "simulator/hardware/file.h"
#include "simulator/hardware/library.h"
#include "simulator/time/rates.h"
#include "tests/support/data.h"

namespace headroom::gpu {
namespace {

Measurements recorded(const char* name) {
  const std::string file = test::source(std::string("validator/results/h100-2026-11-28/") + name).string();
  const auto document = read_document(file);
  EXPECT_TRUE(document) << document.error().text();
  const auto measurements = read_measurements(*document, file);
  EXPECT_TRUE(measurements) << measurements.error().text();
  return *measurements;
}

Hardware fitted(const Measurements& measurements) {
  std::vector<std::string> notes;
  const auto hardware = fit_profile(measurements, *find_hardware("h100"), notes);
  EXPECT_TRUE(hardware) << hardware.error().text();
  return *hardware;
}

TEST(LinearTime, FindsLatencyAndRate) {
  std::vector<Timing> timings;
  for (double size = 1e4; size < 1e10; size *= 10) timings.push_back({size, 5e-6 + size / 2e12});
  const auto line = fit_linear_time(timings);
  ASSERT_TRUE(line);
  EXPECT_NEAR(line->latency, 5e-6, 1e-9);
  EXPECT_NEAR(line->rate, 2e12, 1e7);
}

TEST(LinearTime, CountsSmallSizesAsMuchAsLargeOnes) {
  // One large size measured a tenth too slow must not hide the latency of the small ones.
  const std::vector<Timing> timings = {{1e4, 5e-6 + 5e-9}, {1e6, 5.5e-6}, {1e9, 1.1 * 505e-6}};
  const auto line = fit_linear_time(timings);
  ASSERT_TRUE(line);
  EXPECT_NEAR(line->latency, 5e-6, 0.3e-6);
}

TEST(LinearTime, RefusesWhatIsNoLine) {
  EXPECT_FALSE(fit_linear_time(std::vector<Timing>{{1, 1}}));
  EXPECT_FALSE(fit_linear_time(std::vector<Timing>{{1e3, 5e-6}, {1e9, 1e-9}}));
}

TEST(CurveOf, GivesTheSecondsOfItsLine) {
  const LinearTime line{.latency = 8e-6, .rate = 50e9};
  const EfficiencyCurve curve = curve_of(line, 64e9, 1e-6, 1e-2);
  for (const auto& point : curve.points())
    EXPECT_NEAR(curve.seconds(point.seconds), line.latency + point.seconds * 64e9 / line.rate, 1e-9);
}

TEST(FitProfile, IsAProfileThatReadsBack) {
  for (const char* name : {"calibrate.json", "calibrate2.json"}) {
    const Hardware hardware = fitted(recorded(name));
    const auto again = parse_document(write_yaml(write_hardware(hardware)), "profile.yaml");
    ASSERT_TRUE(again);
    const auto read = read_hardware(*again, "profile.yaml");
    ASSERT_TRUE(read) << name << ": " << read.error().text();
    EXPECT_EQ(write_yaml(write_hardware(*read)), write_yaml(write_hardware(hardware)));
  }
}

/// Two H100, measured twice, by this project's process and by PyTorch's: what NCCL takes agrees to some
/// pages.
TEST(FitProfile, SplitsWhatNcclTook) {
  const Measurements m = recorded("calibrate2.json");
  const Hardware hardware = fitted(m), known = *find_hardware("h100");
  EXPECT_EQ(hardware.context, known.context);
  EXPECT_EQ(hardware.cublas_handle, known.cublas_handle);
  EXPECT_NEAR(static_cast<double>(hardware.nccl.library), static_cast<double>(known.nccl.library),
              32.0 * kMiB);
  EXPECT_NEAR(static_cast<double>(hardware.nccl.first_collective),
              static_cast<double>(known.nccl.first_collective), 8.0 * kMiB);
  EXPECT_EQ(hardware.nccl.channel, known.nccl.channel);
  EXPECT_EQ(hardware.nccl.ring_receive, known.nccl.ring_receive);
}

/// Times from the profile against the times it was fitted to.
TEST(FitProfile, ReproducesWhatWasMeasured) {
  const Measurements m = recorded("calibrate.json");
  Hardware hardware = fitted(m);
  hardware.latencies.operation = 1e-9;  // eager dispatch, which these timings do not have
  double worst_copy = 0, worst_product = 0, worst_transfer = 0;
  const auto error = [](double predicted, double measured) { return std::abs(predicted / measured - 1); };
  for (const RatePoint& p : m.rates) {
    if (p.kind == "copy")
      worst_copy =
          std::max(worst_copy, error(memory_seconds(hardware, static_cast<Bytes>(p.bytes)), p.seconds));
    if (p.kind == "host to device")
      worst_transfer = std::max(
          worst_transfer, error(host_transfer_seconds(hardware, static_cast<Bytes>(p.bytes)), p.seconds));
    int rows = 0, columns = 0, inner = 0;
    if (p.kind == "matrix" && p.dtype == DType::bf16 && p.flops > 1e10 &&
        std::sscanf(p.shape.c_str(), "%dx%dx%d", &rows, &columns, &inner) == 3)
      worst_product =
          std::max(worst_product,
                   error(matrix_product_seconds(hardware, rows, columns, inner, DType::bf16), p.seconds));
  }
  EXPECT_LT(worst_copy, 0.25);
  EXPECT_LT(worst_transfer, 0.25);
  EXPECT_LT(worst_product, 0.25);
}

TEST(ReadMeasurements, NamesWhatIsMissing) {
  const auto document = parse_document(R"({"schema": "headroom.measurements/1"})", "m.json");
  const auto measurements = read_measurements(*document, "m.json");
  ASSERT_FALSE(measurements);
  EXPECT_NE(measurements.error().text().find("m.json:1: gpu"), std::string::npos)
      << measurements.error().text();
}

}  // namespace
}  // namespace headroom::gpu
