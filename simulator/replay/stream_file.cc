#include "simulator/replay/stream_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>

#include "simulator/replay/address_map.h"

namespace headroom::replay {
namespace {

using Kind = StreamEvent::Kind;

constexpr Bytes kMarkerRequest = 7777;
constexpr std::size_t kElements = 6;
constexpr std::size_t kMaxDepth = 16;
constexpr Bytes kLargest = Bytes{1} << 44;  ///< of one request: no device has more

struct KindName {
  Kind kind;
  std::string_view name;
};
constexpr KindName kKinds[] = {{Kind::allocate, "a"},       {Kind::free_requested, "q"},
                               {Kind::free, "f"},           {Kind::record_stream, "r"},
                               {Kind::empty_cache, "e"},    {Kind::phase, "p"},
                               {Kind::expandable, "x"},
                               {Kind::segment_alloc, "S+"}, {Kind::segment_free, "S-"},
                               {Kind::segment_map, "M+"},   {Kind::segment_unmap, "M-"}};

/// Reads the object value by value; events become StreamEvents as soon as their array closes.
class StreamHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit StreamHandler(AllocationStream& out) : out_(out) {}

  Error error;
  std::int64_t format = 1;
  Bytes marker_size = 0;

  bool null() override { return scalar("null"); }
  bool boolean(bool) override { return scalar("a boolean"); }
  bool number_integer(std::int64_t value) override { return integer(value); }
  bool number_unsigned(std::uint64_t value) override {
    if (value > INT64_MAX && in_event())
      return bad_event(fmt::format("expected integers of 63 bits, found {}", value));
    return integer(value > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(value));
  }
  bool number_float(double, const std::string&) override { return scalar("a fraction"); }
  bool binary(binary_t&) override { return scalar("binary data"); }

  bool string(std::string& value) override {
    if (in_event()) {
      if (elements_ != 0) return bad_event("expected numbers after the kind");
      const auto* at = std::ranges::find(kKinds, std::string_view(value), &KindName::name);
      if (at == std::end(kKinds)) return bad_event(fmt::format("unknown kind `{}`", value.substr(0, 20)));
      kind_ = at->kind;
      elements_ = 1;
      return true;
    }
    if (depth_ == 2 && key_ == "labels") out_.labels.push_back(value);
    if (depth_ == 2 && key_ == "phases") out_.phases.push_back(value);
    if (depth_ == 1 && key_ == "case") out_.name = value;
    if (depth_ == 1 && key_ == "settings") out_.settings = value;
    return true;
  }

  bool start_object(std::size_t) override {
    if (in_event()) return bad_event("expected integers, found an object");
    return open();
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override {
    if (in_event()) return bad_event("expected integers, found a list");
    if (!open()) return false;
    if (in_event()) elements_ = 0;
    return true;
  }
  bool end_array() override {
    if (in_event() && !finish_event()) return false;
    return close();
  }
  bool key(std::string& value) override {
    if (depth_ == 1) key_ = value;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& e) override {
    // "[…] parse error at line 2, column 7: syntax error …": the library's number says nothing to people.
    std::string_view what = e.what();
    constexpr std::string_view kAt = "parse error at ";
    if (const std::size_t at = what.find(kAt); at != std::string_view::npos) what.remove_prefix(at + kAt.size());
    if (what.starts_with("line ")) error.line = std::atoi(what.data() + 5);
    if (const std::size_t end = what.find(": "); end != std::string_view::npos) what.remove_prefix(end + 2);
    error.message = fmt::format("byte {}: no valid JSON: {}", position, what);
    return false;
  }

 private:
  bool in_event() const { return depth_ == 3 && key_ == "events"; }
  bool open() {
    if (++depth_ <= kMaxDepth) return true;
    error.message = fmt::format("more than {} levels", kMaxDepth);
    return false;
  }
  bool close() {
    --depth_;
    return true;
  }
  bool bad_event(std::string message) {
    error.message = std::move(message);
    error.key = fmt::format("event {}", index_);
    return false;
  }
  bool scalar(std::string_view what) {
    return in_event() ? bad_event(fmt::format("expected integers, found {}", what)) : true;
  }

  bool integer(std::int64_t value) {
    if (in_event()) {
      if (elements_ == 0) return bad_event("expected a kind first, found a number");
      if (elements_ >= kElements) return bad_event("too many elements");
      values_[elements_++] = value;
    } else if (depth_ == 1 && key_ == "format") {
      format = value;
    } else if (depth_ == 1 && key_ == "marker_size") {
      marker_size = value;
    }
    return true;
  }

  bool size(std::int64_t value, Bytes& bytes) {
    bytes = value;
    return (value >= 0 && value <= kLargest) ||
           bad_event(fmt::format("a size of {} bytes, expected 0 to 2^44, more than any device has", value));
  }

  bool finish_event() {
    const std::size_t given = elements_;
    const bool three = kind_ == Kind::allocate || kind_ == Kind::record_stream;
    const std::size_t needed = three ? 3 : kind_ == Kind::empty_cache ? 1 : 2;
    if (given < needed) return bad_event(fmt::format("expected {} elements, found {}", needed, given));
    StreamEvent e{.kind = kind_};
    switch (kind_) {
      case Kind::allocate:
        if (!allocation(e, given)) return false;
        break;
      case Kind::free:
      case Kind::free_requested:
        if (!freed(e)) return false;
        break;
      case Kind::record_stream:
        if (!used(e)) return false;
        break;
      case Kind::empty_cache:
        break;
      case Kind::phase:
        if (!index(1, "phase", e.id)) return false;
        break;
      case Kind::expandable:
        if (values_[1] != 0 && values_[1] != 1)
          return bad_event(fmt::format("expected 1 (on) or 0 (off), found {}", values_[1]));
        e.id = values_[1] == 1 ? 1 : 0;
        break;
      default:
        if (!size(values_[1], e.bytes)) return false;
        break;
    }
    out_.events.push_back(e);
    ++index_;
    return true;
  }

  bool allocation(StreamEvent& e, std::size_t given) {
    if (!size(values_[2], e.bytes)) return false;
    if (ids_.find(values_[1]) != AddressMap::kNone)
      return bad_event(fmt::format("allocation {} is still live", values_[1]));
    e.id = out_.allocations++;
    ids_.set(values_[1], e.id);
    // Which of stream and label the fourth element is depends on `format`, which may come later.
    e.stream = kNoLabel;
    if (given > 3 && !index(3, "stream or label", e.stream)) return false;
    if (given > 4 && !index(4, "label", e.label)) return false;
    if (given > 5) {
      if (values_[5] > 65535) return bad_event(fmt::format("pool {}, expected at most 65535", values_[5]));
      e.pool = static_cast<std::uint16_t>(std::max<std::int64_t>(values_[5], 0));
    }
    return true;
  }

  /// An element that counts something; below 0: none. It must not become another number on the way to 32 bits.
  bool index(std::size_t element, std::string_view what, std::uint32_t& out) {
    const std::int64_t value = values_[element];
    if (value >= kNoLabel) return bad_event(fmt::format("{} {}, expected below 2^32 - 1", what, value));
    out = value < 0 ? kNoLabel : static_cast<std::uint32_t>(value);
    return true;
  }

  bool freed(StreamEvent& e) {
    e.id = ids_.find(values_[1]);
    if (e.id == AddressMap::kNone)
      return bad_event(
          fmt::format("frees allocation {}, which was never made or is free already", values_[1]));
    if (kind_ == Kind::free) ids_.erase(values_[1]);
    return true;
  }

  bool used(StreamEvent& e) {
    e.id = ids_.find(values_[1]);
    if (e.id == AddressMap::kNone)
      return bad_event(
          fmt::format("uses allocation {}, which was never made or is free already", values_[1]));
    return index(2, "stream", e.stream);
  }

  AllocationStream& out_;
  std::string key_;
  std::size_t depth_ = 0, index_ = 0, elements_ = 0;
  Kind kind_ = Kind::allocate;
  std::array<std::int64_t, kElements> values_{};
  AddressMap ids_;
};

/// What formats 1 and 2 leave to the reader: phases, the place of labels, emptied caches.
void complete_old_format(AllocationStream& stream, std::int64_t format, Bytes marker_size) {
  ChunkedVector<StreamEvent> events;
  for (std::size_t i = 0; i < stream.events.size(); ++i) {
    StreamEvent e = stream.events[i];
    if (e.kind == Kind::allocate && format < 2)
      e = {.bytes = e.bytes, .id = e.id, .label = e.stream, .kind = e.kind};
    if (e.kind == Kind::allocate && e.bytes == kMarkerRequest && round_up(e.bytes, 512) == marker_size) {
      events.push_back({.id = static_cast<std::uint32_t>(stream.phases.size()), .kind = Kind::phase});
      stream.phases.push_back(fmt::format("phase {}", stream.phases.size()));
    }
    events.push_back(e);
  }
  stream.events = with_cache_emptying(events, {});
}

Status check_indices(AllocationStream& stream) {
  for (std::size_t i = 0; i < stream.events.size(); ++i) {
    StreamEvent& e = stream.events[i];
    if (e.kind == Kind::phase && e.id != kNoPhase && e.id >= stream.phases.size())
      return fail(Error{.message = fmt::format("phase {} of {}", e.id, stream.phases.size()),
                        .file = {},
                        .key = fmt::format("event {}", i)});
    if (e.kind != Kind::allocate && e.kind != Kind::record_stream) continue;
    if (e.label >= stream.labels.size()) e.label = kNoLabel;
    if (e.stream == kNoLabel) e.stream = 0;
    stream.streams = std::max(stream.streams, e.stream + 1);
    stream.pools = std::max<std::uint32_t>(stream.pools, e.pool + 1u);
    if (e.stream > 65535)
      return fail(Error{.message = fmt::format("stream {}, expected at most 65535", e.stream),
                        .file = {},
                        .key = fmt::format("event {}", i)});
  }
  return {};
}

constexpr const char* kReadable =
    "expected a memory snapshot of PyTorch (a pickle of protocol 2 or later) or an allocation stream (JSON)";

}  // namespace

Result<AllocationStream> parse_stream(std::string_view text, const std::string& file) {
  AllocationStream stream;
  StreamHandler handler(stream);
  const auto bad = [&](Error error) {
    error.file = file;
    return fail(std::move(error));
  };
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos)
    return bad({.message = std::string("the file is empty; ") + kReadable, .file = {}, .key = {}});
  if (text[start] != '{')
    return bad(
        {.message = std::string("neither a pickle nor a JSON object; ") + kReadable, .file = {}, .key = {}});
  if (!nlohmann::json::sax_parse(text, &handler)) return bad(handler.error);
  if (stream.events.empty())
    return bad({.message = "no `events`: this is no allocation stream", .file = {}, .key = {}});
  if (handler.format < 1 || handler.format > 3)
    return bad(
        {.message = fmt::format("format {}; 1 to 3 are read", handler.format), .file = {}, .key = "format"});
  if (handler.format < 3) complete_old_format(stream, handler.format, handler.marker_size);
  if (Status status = check_indices(stream); !status) return bad(status.error());
  if (stream.name.empty()) stream.name = file;
  if (Status status = check_stream(stream); !status) return bad(status.error());
  return stream;
}

std::string stream_text(const AllocationStream& stream) {
  using nlohmann::json;
  const auto dumped = [](const auto& value) {
    return json(value).dump(-1, ' ', false, json::error_handler_t::replace);
  };
  std::string out = fmt::format(
      "{{\"case\":{},\"format\":3,\"settings\":{},\"marker_size\":0,\"labels\":{},\"phases\":{},\"events\":[",
      dumped(stream.name), dumped(stream.settings), dumped(stream.labels), dumped(stream.phases));
  auto to = std::back_inserter(out);
  for (std::size_t i = 0; i < stream.events.size(); ++i) {
    const StreamEvent& e = stream.events[i];
    const auto* kind = std::ranges::find(kKinds, e.kind, &KindName::kind);
    fmt::format_to(to, "{}\n[\"{}\"", i == 0 ? "" : ",", kind->name);
    const std::int64_t label = e.label == kNoLabel ? -1 : static_cast<std::int64_t>(e.label);
    switch (e.kind) {
      case Kind::allocate:
        fmt::format_to(to, ",{},{},{}", e.id, e.bytes, e.stream);
        if (label >= 0 || e.pool != 0) fmt::format_to(to, ",{}", label);
        if (e.pool != 0) fmt::format_to(to, ",{}", e.pool);
        break;
      case Kind::free:
      case Kind::free_requested:
        fmt::format_to(to, ",{}", e.id);
        break;
      case Kind::record_stream:
        fmt::format_to(to, ",{},{}", e.id, e.stream);
        break;
      case Kind::empty_cache:
        break;
      case Kind::expandable:
        fmt::format_to(to, ",{}", e.id);
        break;
      case Kind::phase:
        fmt::format_to(to, ",{}", e.id == kNoPhase ? -1 : static_cast<std::int64_t>(e.id));
        break;
      default:
        fmt::format_to(to, ",{}", e.bytes);
        break;
    }
    out += ']';
  }
  out += "]}\n";
  return out;
}

}  // namespace headroom::replay
