#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>

namespace headroom {

/// Where a phase's seconds go. Each moment counts once, to what the phase waits for: the host while the GPU
/// is idle, the kernel that runs while the host waits or is ahead.
enum class Spent : std::uint8_t {
  host,     ///< Python and dispatch, optimizers on the host, driver calls
  matrix,   ///< products and attention
  memory,   ///< kernels bound by memory
  copies,   ///< between host and GPU, first touch and pinning of host memory included
  network,  ///< collectives
  waiting,  ///< for other ranks or processes: pipeline bubbles, an engine's pool
};
inline constexpr std::size_t kSpentKinds = 6;

constexpr std::string_view name(Spent what) {
  constexpr std::string_view kNames[kSpentKinds] = {"host",   "matrix",  "memory",
                                                    "copies", "network", "waiting"};
  return kNames[static_cast<std::size_t>(what)];
}

/// Seconds by what they were spent on.
struct Seconds {
  std::array<double, kSpentKinds> by{};

  double& operator[](Spent what) { return by[static_cast<std::size_t>(what)]; }
  double operator[](Spent what) const { return by[static_cast<std::size_t>(what)]; }
  double total() const { return std::accumulate(by.begin(), by.end(), 0.0); }
  Seconds& operator+=(const Seconds& other) {
    for (std::size_t i = 0; i < by.size(); ++i) by[i] += other.by[i];
    return *this;
  }
  friend Seconds operator-(Seconds a, const Seconds& b) {
    for (std::size_t i = 0; i < a.by.size(); ++i) a.by[i] -= b.by[i];
    return a;
  }
  friend Seconds operator*(Seconds a, double times) {
    for (double& s : a.by) s *= times;
    return a;
  }
};

}  // namespace headroom
