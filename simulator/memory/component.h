#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "models/base/bytes.h"

namespace headroom {

/// What a byte is for. Every predicted byte belongs to exactly one; `allocator_slack` is reserved minus
/// allocated.
enum class Component : std::uint8_t {
  weights,
  gradients,
  master_weights,
  optimizer,
  activations,
  logits,
  kv_cache,
  temporaries,
  communication,
  gathered_parameters,
  staging,
  allocator_slack,
  context,
  communicators,
  workspaces,
  engine_weights,
  engine_kv,
  engine_graphs,
  engine_other,
  other,
};
inline constexpr std::size_t kComponents = 20;

/// The name used in every output: `kv_cache`, `gathered_parameters`, …
std::string_view name(Component component);
std::optional<Component> parse_component(std::string_view text);

/// Bytes by component; adds, subtracts and compares like a number.
struct Breakdown {
  std::array<Bytes, kComponents> bytes{};

  Bytes& operator[](Component c) { return bytes[static_cast<std::size_t>(c)]; }
  Bytes operator[](Component c) const { return bytes[static_cast<std::size_t>(c)]; }
  Bytes total() const {
    Bytes sum = 0;
    for (Bytes b : bytes) sum += b;
    return sum;
  }
  Breakdown& operator+=(const Breakdown& other) {
    for (std::size_t i = 0; i < kComponents; ++i) bytes[i] += other.bytes[i];
    return *this;
  }
  Breakdown& operator-=(const Breakdown& other) {
    for (std::size_t i = 0; i < kComponents; ++i) bytes[i] -= other.bytes[i];
    return *this;
  }
  friend Breakdown operator+(Breakdown a, const Breakdown& b) { return a += b; }
  friend Breakdown operator-(Breakdown a, const Breakdown& b) { return a -= b; }
  friend bool operator==(const Breakdown&, const Breakdown&) = default;
};

}  // namespace headroom
