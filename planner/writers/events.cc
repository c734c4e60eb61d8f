#include "planner/writers/events.h"

#include <fmt/format.h>

#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_set>
#include <utility>

namespace headroom::writers {
namespace {

std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_list(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (std::size_t i = 0; i < texts.size(); ++i) out += (i > 0 ? ",\n" : "") + json_text(texts[i]);
  return out + "]";
}

/// Allocations that were dropped while another stream used them.
std::unordered_set<std::uint32_t> freed_later(const std::vector<MemoryEvent>& events) {
  std::unordered_set<std::uint32_t> out;
  for (const MemoryEvent& event : events)
    if (event.kind == MemoryEvent::Kind::free_completed) out.insert(event.id);
  return out;
}

/// Phases between the events: a name's index where one begins.
class PhaseMarks {
 public:
  explicit PhaseMarks(const std::vector<EventStream::Phase>& phases) : phases_(phases) {}

  /// Those before event `index`.
  void write_before(std::size_t index, std::string& out, const char*& separator) {
    for (; next_ < phases_.size() && phases_[next_].begins <= index; ++next_) {
      const std::string& name = phases_[next_].name;
      fmt::format_to(std::back_inserter(out), "{}[\"p\",{}]", separator,
                     name.empty() ? -1 : static_cast<std::int64_t>(names_.size()));
      separator = ",\n";
      if (!name.empty()) names_.push_back(name);
    }
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  const std::vector<EventStream::Phase>& phases_;
  std::size_t next_ = 0;
  std::vector<std::string> names_;
};

}  // namespace

std::string events_json(const EventStream& stream, const std::string& title) {
  std::string out = fmt::format(
      "{{\"case\":{},\"format\":3,\"process\":{},\"device\":{},\"settings\":{},\"events\":[", json_text(title),
      json_text(stream.process), stream.device, json_text(stream.settings));
  std::map<std::tuple<std::uint32_t, std::uint16_t, Component>, std::size_t> labels;
  const std::unordered_set<std::uint32_t> later = freed_later(stream.events);
  PhaseMarks phases(stream.phases);
  const auto into = std::back_inserter(out);
  const char* separator = "";
  for (std::size_t i = 0; i < stream.events.size(); ++i) {
    phases.write_before(i, out, separator);
    const MemoryEvent& event = stream.events[i];
    out += std::exchange(separator, ",\n");
    switch (event.kind) {
      case MemoryEvent::Kind::allocate: {
        const auto key = std::tuple(event.label.module, event.label.operation, event.label.component);
        const std::size_t label = labels.try_emplace(key, labels.size()).first->second;
        fmt::format_to(into, "[\"a\",{},{},{},{}]", event.id, event.bytes, event.stream, label);
        break;
      }
      case MemoryEvent::Kind::free:
        fmt::format_to(into, "[\"{}\",{}]", later.contains(event.id) ? "q" : "f", event.id);
        break;
      case MemoryEvent::Kind::free_completed:
        fmt::format_to(into, "[\"f\",{}]", event.id);
        break;
      case MemoryEvent::Kind::record_stream:
        fmt::format_to(into, "[\"r\",{},{}]", event.id, event.stream);
        break;
      case MemoryEvent::Kind::empty_cache:
        out += "[\"e\"]";
        break;
      case MemoryEvent::Kind::expandable_on:
      case MemoryEvent::Kind::expandable_off:
        fmt::format_to(into, "[\"x\",{:d}]", event.kind == MemoryEvent::Kind::expandable_on);
        break;
    }
  }
  std::vector<std::string> texts(labels.size());
  for (const auto& [key, index] : labels)
    texts[index] = fmt::format("{}|{}|{}", stream.modules[std::get<0>(key)],
                               tape::operation_text(std::get<1>(key)), name(std::get<2>(key)));
  phases.write_before(stream.events.size(), out, separator);
  return out + "],\n\"labels\":" + json_list(texts) + ",\n\"phases\":" + json_list(phases.names()) + "}\n";
}

}  // namespace headroom::writers
