#include "models/base/error.h"

#include "models/base/printable.h"

namespace headroom {
namespace {

// What is wrong can be as long as the file that holds it: its beginning tells which it is.
constexpr std::size_t kMessage = 1200, kKey = 300;

std::string start_of(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0U) == 0x80U) --most;  // whole characters
  return text.substr(0, most) + "…";
}

}  // namespace

std::string Error::text() const {
  std::string out;
  if (!file.empty()) {
    out += printable(file);
    if (line > 0) out += ":" + std::to_string(line);
    out += ": ";
  }
  if (!key.empty()) out += start_of(printable(key), kKey) + ": ";
  return out + start_of(printable(message), kMessage);
}

}  // namespace headroom
