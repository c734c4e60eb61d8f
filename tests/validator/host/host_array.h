#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <random>
#include <vector>

#include "models/base/dtype.h"
#include "tests/validator/relative_error.h"
#include "validator/host/numbers.h"

namespace headroom::gpu {

/// Fresh random numbers in each run; the seed of a failing one is printed.
class HostTest : public ::testing::Test {
 protected:
  void SetUp() override {
    seed_ = std::random_device{}();
    random_.seed(seed_);
  }
  void TearDown() override {
    if (HasFailure()) std::cerr << "random seed: " << seed_ << "\n";
  }
  std::vector<double> normal(std::int64_t n) {
    std::normal_distribution<double> draw;
    std::vector<double> values(static_cast<std::size_t>(n));
    for (double& v : values) v = draw(random_);
    return values;
  }

  unsigned seed_ = 0;
  std::mt19937 random_;
};

/// Numbers in one dtype with a guard behind them; `values` become what they are after rounding.
class HostArray {
 public:
  HostArray(DType dtype, std::vector<double>& values)
      : dtype_(dtype),
        n_(values.size()),
        raw_(n_ * static_cast<std::size_t>(element_size(dtype)) + kGuard, 0xff) {
    with_host_type(dtype_, [&]<class T>(T) {
      for (std::size_t i = 0; i < n_; ++i)
        reinterpret_cast<T*>(raw_.data())[i] = static_cast<T>(static_cast<float>(values[i]));
    });
    values = read();
  }
  void* data() { return raw_.data(); }
  std::vector<double> read() const {
    for (std::size_t i = raw_.size() - kGuard; i < raw_.size(); ++i)
      EXPECT_EQ(raw_[i], 0xff) << "written past the end";
    std::vector<double> values(n_);
    with_host_type(dtype_, [&]<class T>(T) {
      for (std::size_t i = 0; i < n_; ++i)
        values[i] = static_cast<double>(static_cast<float>(reinterpret_cast<const T*>(raw_.data())[i]));
    });
    return values;
  }

 private:
  static constexpr std::size_t kGuard = 16;
  DType dtype_;
  std::size_t n_;
  std::vector<unsigned char> raw_;
};

}  // namespace headroom::gpu
