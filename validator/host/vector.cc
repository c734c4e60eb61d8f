#include "validator/host/vector.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "validator/host/numbers.h"
#include "validator/host/threads.h"

namespace headroom::gpu {
namespace {

/// x[i] = change(x[i], i)
template <class Change>
void change_on_host(void* x, DType dtype, std::int64_t n, Change change) {
  with_host_type(dtype, [&]<class T>(T) {
    auto* values = static_cast<T*>(x);
    on_host_threads(n, [&](int, std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i)
        values[i] = static_cast<T>(change(static_cast<float>(values[i]), i));
    });
  });
}

}  // namespace

double norm_on_host(const void* x, DType dtype, std::int64_t n) {
  std::vector<double> parts(static_cast<std::size_t>(host_threads(n)));
  with_host_type(dtype, [&]<class T>(T) {
    const auto* values = static_cast<const T*>(x);
    on_host_threads(n, [&](int part, std::int64_t first, std::int64_t last) {
      double sum = 0;
      for (std::int64_t i = first; i < last; ++i) {
        const auto value = static_cast<double>(static_cast<float>(values[i]));
        sum += value * value;
      }
      parts[static_cast<std::size_t>(part)] = sum;
    });
  });
  return std::sqrt(std::accumulate(parts.begin(), parts.end(), 0.0));
}

void scale_on_host(void* x, DType dtype, float factor, std::int64_t n) {
  change_on_host(x, dtype, n, [factor](float value, std::int64_t) { return value * factor; });
}

void add_on_host(void* x, const void* y, DType dtype, std::int64_t n) {
  with_host_type(dtype, [&]<class T>(T) {
    const auto* other = static_cast<const T*>(y);
    change_on_host(x, dtype, n,
                   [other](float value, std::int64_t i) { return value + static_cast<float>(other[i]); });
  });
}

void cast_on_host(const void* in, DType from, void* out, DType to, std::int64_t n) {
  with_host_type(from, [&]<class In>(In) {
    const auto* source = static_cast<const In*>(in);
    with_host_type(to, [&]<class Out>(Out) {
      auto* target = static_cast<Out*>(out);
      on_host_threads(n, [&](int, std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i)
          target[i] = static_cast<Out>(static_cast<float>(source[i]));
      });
    });
  });
}

}  // namespace headroom::gpu
