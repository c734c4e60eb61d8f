#include "validator/host/adamw.h"

#include <cmath>

#include "validator/host/numbers.h"
#include "validator/host/threads.h"

namespace headroom::gpu {
namespace {

template <class W, class G, class S>
void update(const AdamWFactors& f, std::int64_t n, W* parameter, float* master, const G* gradient, S* first,
            S* second) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float slope = static_cast<float>(gradient[i]) * f.gradient_scale;
    const float mean = f.beta1 * static_cast<float>(first[i]) + (1.0f - f.beta1) * slope;
    const float square = f.beta2 * static_cast<float>(second[i]) + (1.0f - f.beta2) * slope * slope;
    const float before = master != nullptr ? master[i] : static_cast<float>(parameter[i]);
    const float after =
        before * f.decay - f.step * mean / (std::sqrt(square) * f.root_correction + f.epsilon);
    first[i] = static_cast<S>(mean);
    second[i] = static_cast<S>(square);
    if (master != nullptr) master[i] = after;
    parameter[i] = static_cast<W>(after);
  }
}

}  // namespace

void adamw_on_host(const AdamW& a) {
  const AdamWFactors factors(a);
  with_host_type(a.weight_dtype, [&]<class W>(W) {
    with_host_type(a.gradient_dtype, [&]<class G>(G) {
      with_host_type(a.state_dtype, [&]<class S>(S) {
        on_host_threads(a.n, [&](int, std::int64_t at, std::int64_t last) {
          update(factors, last - at, static_cast<W*>(a.parameter) + at,
                 a.master != nullptr ? a.master + at : nullptr, static_cast<const G*>(a.gradient) + at,
                 static_cast<S*>(a.first) + at, static_cast<S*>(a.second) + at);
        });
      });
    });
  });
}

}  // namespace headroom::gpu
