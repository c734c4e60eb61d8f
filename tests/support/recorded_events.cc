#include "tests/support/recorded_events.h"

#include <zlib.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace headroom::test {
namespace {

std::string unzipped(const std::filesystem::path& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw std::runtime_error("cannot open " + path.string());
  std::string text;
  std::array<char, 1 << 16> part;
  for (int n = 0; (n = gzread(file, part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(n));
  gzclose(file);
  return text;
}

}  // namespace

std::vector<RecordedEvent> recorded_events(const std::filesystem::path& trace) {
  const nlohmann::json recording = nlohmann::json::parse(unzipped(trace));
  const bool streams = recording.value("format", 1) == 2;
  const auto labels = recording.value("labels", std::vector<std::string>());
  std::vector<RecordedEvent> out;
  std::map<std::int64_t, RecordedEvent> live;
  std::int64_t next = 0;
  for (const auto& event : recording["events"]) {
    const std::string kind = event[0];
    if (kind == "a") {
      RecordedEvent e{true, next++, event[2], streams ? event[3].get<std::int64_t>() : -1, ""};
      if (event.size() > (streams ? 4u : 3u)) e.label = labels.at(event.back());
      live[event[1]] = e;
      out.push_back(e);
    } else if (kind == "f") {
      const auto known = live.find(event[1]);
      if (known == live.end()) continue;
      RecordedEvent e = known->second;
      e.allocation = false;
      out.push_back(e);
    }
  }
  return out;
}

}  // namespace headroom::test
