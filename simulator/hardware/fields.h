#pragma once

#include <span>
#include <string_view>
#include <variant>

#include "simulator/hardware/hardware.h"

namespace headroom {

/// One figure of a profile's file: the table that reader and writer share.
struct HardwareField {
  using Member = std::variant<Bytes* (*)(Hardware&), double* (*)(Hardware&), EfficiencyCurve* (*)(Hardware&)>;

  enum class Kind { bytes, count, rate, seconds, share, curve };

  std::string_view section, key;
  Kind kind;
  Member member;
  bool may_be_zero = false;  ///< a card without it: NVLink, a kind of matrix unit, channels' peers
  bool optional = false;     ///< may be absent from a complete file
};

std::span<const HardwareField> hardware_fields();

/// The figure of a field of that kind: bytes or count; rate, seconds or share; curve.
std::int64_t whole_figure(const HardwareField& field, const Hardware& hardware);
double real_figure(const HardwareField& field, const Hardware& hardware);
const EfficiencyCurve& curve_figure(const HardwareField& field, const Hardware& hardware);

}  // namespace headroom
