#include "planner/writers/events.h"

#include <fmt/format.h>

#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

namespace headroom::writers {
namespace {

std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string events_json(const EventStream& stream, const std::string& title) {
  std::string out = fmt::format("{{\"case\":{},\"format\":2,\"process\":{},\"device\":{},\"events\":[",
                                json_text(title), json_text(stream.process), stream.device);
  std::map<std::tuple<std::uint32_t, std::uint16_t, Component>, std::size_t> labels;
  const auto into = std::back_inserter(out);
  bool first = true;
  for (const MemoryEvent& event : stream.events) {
    if (!first) out += ",\n";
    first = false;
    switch (event.kind) {
      case MemoryEvent::Kind::allocate: {
        const auto key = std::tuple(event.label.module, event.label.operation, event.label.component);
        const std::size_t label = labels.try_emplace(key, labels.size()).first->second;
        fmt::format_to(into, "[\"a\",{},{},{},{}]", event.id, event.bytes, event.stream, label);
        break;
      }
      case MemoryEvent::Kind::free:
        fmt::format_to(into, "[\"f\",{}]", event.id);
        break;
      case MemoryEvent::Kind::record_stream:
        fmt::format_to(into, "[\"r\",{},{}]", event.id, event.stream);
        break;
      case MemoryEvent::Kind::empty_cache:
        out += "[\"e\"]";
        break;
    }
  }
  std::vector<std::string> texts(labels.size());
  for (const auto& [key, index] : labels)
    texts[index] = fmt::format("{}|{}|{}", stream.modules[std::get<0>(key)],
                               tape::operation_text(std::get<1>(key)), name(std::get<2>(key)));
  out += "],\n\"labels\":[";
  for (std::size_t i = 0; i < texts.size(); ++i) out += (i > 0 ? ",\n" : "") + json_text(texts[i]);
  return out + "]}\n";
}

}  // namespace headroom::writers
