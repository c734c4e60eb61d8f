#include "models/base/dtype.h"

#include <array>
#include <utility>

namespace headroom {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 32> kNames = {{
    {"fp32", DType::fp32},         {"fp16", DType::fp16},       {"bf16", DType::bf16},
    {"fp8", DType::fp8},           {"int8", DType::int8},       {"uint8", DType::uint8},
    {"int64", DType::int64},       {"int32", DType::int32},     {"bool", DType::boolean},
    {"nf4", DType::nf4},           {"fp64", DType::fp64},       {"float32", DType::fp32},
    {"float", DType::fp32},        {"float16", DType::fp16},    {"half", DType::fp16},
    {"bfloat16", DType::bf16},     {"float64", DType::fp64},    {"double", DType::fp64},
    {"long", DType::int64},        {"int", DType::int32},       {"float8", DType::fp8},
    {"e4m3", DType::fp8},          {"fp8_e4m3", DType::fp8},    {"fp8_e5m2", DType::fp8},
    {"float8_e4m3fn", DType::fp8}, {"float8_e5m2", DType::fp8}, {"32", DType::fp32},
    {"16", DType::fp16},           {"fp4", DType::fp4},         {"mxfp4", DType::fp4},
    {"bf16-mixed", DType::bf16},   {"boolean", DType::boolean},
}};

}  // namespace

std::string_view name(DType dtype) {
  for (const auto& [text, value] : kNames)
    if (value == dtype) return text;
  return "?";
}

std::optional<DType> parse_dtype(std::string_view text) {
  if (text.substr(0, 6) == "torch.") text.remove_prefix(6);
  for (const auto& [known, value] : kNames)
    if (known == text) return value;
  return std::nullopt;
}

}  // namespace headroom
