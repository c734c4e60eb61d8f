#include "models/base/error.h"

namespace headroom {

std::string Error::text() const {
  std::string out;
  if (!file.empty()) {
    out += file;
    if (line > 0) out += ":" + std::to_string(line);
    out += ": ";
  }
  if (!key.empty()) out += key + ": ";
  return out + message;
}

}  // namespace headroom
