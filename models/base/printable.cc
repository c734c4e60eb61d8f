#include "models/base/printable.h"

#include <cstddef>
#include <cstdint>

namespace headroom {
namespace {

constexpr char kHex[] = "0123456789abcdef";

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 1;
  bool valid = false;
};

/// The UTF-8 character that begins at `at`; one invalid byte where none does. Overlong forms, surrogates and
/// codes beyond Unicode are invalid.
Character character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return {first, 1, true};
  const std::size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || at + bytes > text.size()) return {first, 1, false};
  std::uint32_t code = first & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(at + i) & 0xC0U) != 0x80U) return {first, 1, false};
    code = code << 6 | (byte(at + i) & 0x3FU);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[bytes] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return {first, 1, false};
  return {code, bytes, true};
}

/// Characters that show nothing themselves and change what stands around them.
bool misleads(std::uint32_t code) {
  return (code >= 0x80 && code < 0xA0) || code == 0xAD || code == 0x61C || code == 0x180E ||
         (code >= 0x200B && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2060 && code <= 0x206F) || code == 0xFEFF || (code >= 0xFFF9 && code <= 0xFFFB) ||
         (code >= 0xE0000 && code <= 0xE007F);
}

std::string hex(std::uint32_t value, int digits) {
  std::string out;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += kHex[value >> shift & 0xFU];
  return out;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const Character c = character_at(text, i);
    if (!c.valid || c.code < 0x20 || c.code == 0x7F) {
      if (c.code == '\n') {
        out += "\\n";
      } else if (c.code == '\t') {
        out += "\\t";
      } else {
        out += "\\x" + hex(c.code, 2);
      }
    } else if (misleads(c.code)) {
      out += c.code > 0xFFFF ? "\\U" + hex(c.code, 8) : "\\u" + hex(c.code, 4);
    } else {
      out += text.substr(i, c.bytes);
    }
    i += c.bytes;
  }
  return out;
}

}  // namespace headroom
