#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "models/base/dtype.h"
#include "tests/validator/relative_error.h"
#include "validator/cuda/device.h"
#include "validator/cuda/handles.h"

namespace headroom {

inline void PrintTo(DType dtype, std::ostream* out) {
  *out << name(dtype);
}

}  // namespace headroom

namespace headroom::gpu {

/// A test on the machine's first GPU; skipped where there is none.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!card_count()) GTEST_SKIP() << "skipped: no GPU";
    auto card = open_card(0);
    ASSERT_TRUE(card) << card.error().text();
    seed_ = std::random_device{}();
    RecordProperty("seed", static_cast<int>(seed_));
    random_.seed(seed_);
  }
  void TearDown() override {
    if (HasFailure()) std::cerr << "random seed: " << seed_ << "\n";
  }
  std::vector<double> normal(std::int64_t n, double deviation = 1.0) {
    std::normal_distribution<double> draw(0.0, deviation);
    std::vector<double> values(static_cast<std::size_t>(n));
    for (double& v : values) v = draw(random_);
    return values;
  }
  std::vector<std::int64_t> integers(std::int64_t n, std::int64_t low, std::int64_t high) {
    std::uniform_int_distribution<std::int64_t> draw(low, high);
    std::vector<std::int64_t> values(static_cast<std::size_t>(n));
    for (auto& v : values) v = draw(random_);
    return values;
  }
  cudaStream_t stream() const { return nullptr; }

  unsigned seed_ = 0;
  std::mt19937 random_;
};

/// The same over each floating dtype.
class GpuKernelTest : public GpuTest, public ::testing::WithParamInterface<DType> {
 protected:
  DType dtype() const { return GetParam(); }
  /// Bound on the relative error: a few roundings of the dtype (fp32 kernels use fast exponentials).
  double bound() const {
    switch (dtype()) {
      case DType::fp16:
        return 2e-3;
      case DType::bf16:
        return 1.2e-2;
      default:
        return 2e-5;
    }
  }
};

#define HEADROOM_ALL_FLOATS(Suite)                                                                  \
  INSTANTIATE_TEST_SUITE_P(Floats, Suite, ::testing::Values(DType::fp32, DType::fp16, DType::bf16), \
                           [](const auto& dtype) { return std::string(name(dtype.param)); })

#define EXPECT_OK(expression)                                                 \
  do {                                                                        \
    if (auto status = (expression); !status) FAIL() << status.error().text(); \
  } while (false)

/// Numbers on the device in one dtype, and the doubles that they are after rounding. Starts as NaN (all bits
/// set), so that an element which a kernel leaves out never passes.
class DeviceArray {
 public:
  DeviceArray(DType dtype, std::int64_t n) : dtype_(dtype), n_(n), block_(*make_device_block(bytes() + 16)) {
    EXPECT_EQ(cudaMemset(block_.get(), 0xff, static_cast<std::size_t>(bytes() + 16)), cudaSuccess);
  }
  DeviceArray(DType dtype, std::vector<double>& values)
      : DeviceArray(dtype, static_cast<std::int64_t>(values.size())) {
    write(values);
    values = read();
  }
  explicit DeviceArray(const std::vector<std::int64_t>& values)
      : DeviceArray(DType::int64, static_cast<std::int64_t>(values.size())) {
    EXPECT_EQ(cudaMemcpy(block_.get(), values.data(), values.size() * 8, cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  explicit DeviceArray(const std::vector<std::int32_t>& values)
      : DeviceArray(DType::int32, static_cast<std::int64_t>(values.size())) {
    EXPECT_EQ(cudaMemcpy(block_.get(), values.data(), values.size() * 4, cudaMemcpyHostToDevice),
              cudaSuccess);
  }

  void* data() const { return block_.get(); }
  template <class T>
  T* as() const {
    return static_cast<T*>(block_.get());
  }
  std::int64_t size() const { return n_; }
  std::int64_t bytes() const { return bytes_of(dtype_, n_); }

  /// The numbers now on the device; waits for all work. Fails the test if the bytes behind the array were
  /// written.
  std::vector<double> read() const {
    std::vector<unsigned char> raw(static_cast<std::size_t>(bytes() + 16));
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << cudaGetErrorString(cudaGetLastError());
    EXPECT_EQ(cudaMemcpy(raw.data(), block_.get(), raw.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    for (std::size_t i = static_cast<std::size_t>(bytes()); i < raw.size(); ++i)
      EXPECT_EQ(raw[i], 0xff) << "written past the end";
    std::vector<double> values(static_cast<std::size_t>(n_));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = element(raw.data(), i);
    return values;
  }

 private:
  void write(const std::vector<double>& values) {
    std::vector<unsigned char> raw(static_cast<std::size_t>(bytes()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto v = static_cast<float>(values[i]);
      if (dtype_ == DType::fp32) reinterpret_cast<float*>(raw.data())[i] = v;
      if (dtype_ == DType::fp16) reinterpret_cast<__half*>(raw.data())[i] = __float2half_rn(v);
      if (dtype_ == DType::bf16) reinterpret_cast<__nv_bfloat16*>(raw.data())[i] = __float2bfloat16_rn(v);
    }
    EXPECT_EQ(cudaMemcpy(block_.get(), raw.data(), raw.size(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  double element(const unsigned char* raw, std::size_t i) const {
    switch (dtype_) {
      case DType::fp16:
        return static_cast<double>(__half2float(reinterpret_cast<const __half*>(raw)[i]));
      case DType::bf16:
        return static_cast<double>(__bfloat162float(reinterpret_cast<const __nv_bfloat16*>(raw)[i]));
      case DType::int64:
        return static_cast<double>(reinterpret_cast<const std::int64_t*>(raw)[i]);
      case DType::int32:
        return reinterpret_cast<const std::int32_t*>(raw)[i];
      case DType::uint8:
        return raw[i];
      case DType::fp64:
        return reinterpret_cast<const double*>(raw)[i];
      default:
        return static_cast<double>(reinterpret_cast<const float*>(raw)[i]);
    }
  }

  DType dtype_;
  std::int64_t n_;
  DeviceBlock block_;
};

}  // namespace headroom::gpu
