#include "simulator/hardware/file.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "models/base/nearest.h"
#include "simulator/hardware/fields.h"

namespace headroom {
namespace {

using Kind = HardwareField::Kind;

constexpr Bytes kMostBytes = Bytes{1} << 50;
constexpr double kLeastRate = 1e6, kMostRate = 1e19;  // bytes or operations a second
constexpr double kLeastSeconds = 1e-12, kMostSeconds = 100, kLeastFraction = 1e-6;

constexpr std::string_view kHostTimes = "host_times", kRelative = "relative";
constexpr int kLikeDepth = 8;  ///< profiles that build on each other; a longer chain is a circle

/// Reads one document over what `like` gave; keeps FILE for messages.
class Reader {
 public:
  Reader(const Document& document, std::string file) : document_(document), file_(std::move(file)) {}

  Status names(Hardware& out) const {
    const Document* name = document_.find("name");
    if (name == nullptr || !name->is_scalar() || name->text().empty())
      return bad(document_, "name", "expected the GPU's name as the driver reports it");
    out.name = name->text();
    out.short_names.clear();
    out.versions.clear();
    if (const Document* list = document_.find("short_names")) {
      if (!list->is_list()) return bad(*list, "short_names", "expected a list of names");
      for (const Document& item : list->items()) out.short_names.push_back(item.text());
    }
    if (const Document* versions = document_.find("versions")) {
      if (!versions->is_map()) return bad(*versions, "versions", "expected names and versions");
      for (const auto& [key, value] : versions->entries()) out.versions[key] = value.text();
    }
    return {};
  }

  Status figures(Hardware& out) const {
    HEADROOM_TRY(known_keys());
    HEADROOM_TRY(another_host(out));
    for (const HardwareField& field : hardware_fields()) {
      const Document* section = document_.find(field.section);
      const Document* value = section == nullptr ? nullptr : section->find(field.key);
      if (value != nullptr) HEADROOM_TRY(figure(field, *value, out));
    }
    for (const auto& [key, section] : document_.entries())
      if (const Document* source = section.find("source")) out.sources[key] = source->text();
    return {};
  }

  Status complete(const std::set<std::string>& stated) const {
    for (const HardwareField& field : hardware_fields()) {
      const std::string key = fmt::format("{}.{}", field.section, field.key);
      if (!field.optional && !stated.contains(key))
        return bad(document_, key, "missing; state it, or name with `like` a profile to take it from");
    }
    return {};
  }

  tl::unexpected<Error> bad(const Document& at, std::string key, std::string message) const {
    return fail(
        Error{.message = std::move(message), .file = file_, .line = at.line(), .key = std::move(key)});
  }

 private:
  /// `host_times.relative`: a host that is faster or slower as a whole than that of the profile taken over.
  Status another_host(Hardware& out) const {
    const Document* section = document_.find(kHostTimes);
    const Document* value = section == nullptr ? nullptr : section->find(kRelative);
    if (value == nullptr) return {};
    constexpr double kLeast = 0.01, kMost = 100;
    const auto ratio = value->as_double();
    if (!ratio || !(*ratio >= kLeast && *ratio <= kMost))
      return bad(*value, fmt::format("{}.{}", kHostTimes, kRelative),
                 fmt::format("expected {:g} to {:g} times the seconds of the profile named by `like`, found {}", kLeast,
                             kMost, value->text()));
    for (const HardwareField& field : hardware_fields())
      if (field.section == kHostTimes) *std::get<1>(field.member)(out) *= *ratio;
    return {};
  }

  /// Every key is a figure of the table; a section with figures says where they come from.
  Status known_keys() const {
    std::vector<std::string_view> sections = {"name", "short_names", "like", "versions"};
    for (const HardwareField& field : hardware_fields()) sections.push_back(field.section);
    for (const auto& [key, section] : document_.entries()) {
      if (std::find(sections.begin(), sections.end(), key) == sections.end())
        return bad(section, key, unknown(key, sections));
      std::vector<std::string_view> keys = {"source"};
      if (key == kHostTimes) keys.push_back(kRelative);
      for (const HardwareField& field : hardware_fields())
        if (field.section == key) keys.push_back(field.key);
      if (keys.back() == "source") continue;
      if (!section.is_map()) return bad(section, key, "expected figures with their source");
      for (const auto& [name, value] : section.entries())
        if (std::find(keys.begin(), keys.end(), name) == keys.end())
          return bad(value, key + "." + name, unknown(name, keys));
      const Document* source = section.find("source");
      if (source == nullptr || !source->is_scalar() || source->text().empty())
        return bad(section, key + ".source", "expected where the figures come from");
    }
    return {};
  }

  static std::string unknown(std::string_view key, std::span<const std::string_view> known) {
    const std::string near = nearest(key, known);
    return near.empty() ? "unknown key" : fmt::format("unknown key; nearest is {}", near);
  }

  Status figure(const HardwareField& field, const Document& value, Hardware& out) const {
    const std::string key = fmt::format("{}.{}", field.section, field.key);
    switch (field.kind) {
      case Kind::bytes: {
        const auto bytes = parse_bytes(value.text());
        if (!bytes) return bad(value, key, bytes.error().message);
        if (*bytes <= 0 && !field.may_be_zero) return bad(value, key, "expected a size above 0");
        if (*bytes > kMostBytes)
          return bad(value, key, fmt::format("expected at most 1024 TiB, found {}", value.text()));
        *std::get<0>(field.member)(out) = *bytes;
        return {};
      }
      case Kind::count: {
        const auto count = value.as_int();
        if (!count || *count <= 0 || *count > 1'000'000)
          return bad(value, key, fmt::format("expected a whole number above 0, found {}", value.text()));
        *std::get<0>(field.member)(out) = *count;
        return {};
      }
      case Kind::rate:
      case Kind::seconds: {
        const bool rate = field.kind == Kind::rate;
        const auto number = value.as_double();
        const double least = rate ? kLeastRate : kLeastSeconds, most = rate ? kMostRate : kMostSeconds;
        // Beyond these nothing is a machine's, and what is computed of it no longer a number.
        if (!number || !((*number == 0 && field.may_be_zero) || (*number >= least && *number <= most)))
          return bad(value, key,
                     fmt::format("expected {} from {:g} to {:g}{}, found {}",
                                 rate ? "units a second" : "seconds", least, most,
                                 field.may_be_zero ? ", or 0" : "", value.text()));
        *std::get<1>(field.member)(out) = *number;
        return {};
      }
      case Kind::share: {
        const auto number = value.as_double();
        if (!number || !(*number >= kLeastFraction && *number <= 1))
          return bad(value, key, fmt::format("expected a share from {:g} to 1, found {}", kLeastFraction, value.text()));
        *std::get<1>(field.member)(out) = *number;
        return {};
      }
      case Kind::curve:
        return curve(value, key, *std::get<2>(field.member)(out));
    }
    return {};
  }

  Status curve(const Document& value, const std::string& key, EfficiencyCurve& out) const {
    std::vector<EfficiencyCurve::Point> points;
    if (!value.is_list() || value.items().empty())
      return bad(value, key, "expected points [seconds, fraction]");
    for (const Document& item : value.items()) {
      const auto x = item.is_list() && item.items().size() == 2 ? item.items()[0].as_double() : std::nullopt;
      const auto y = x ? item.items()[1].as_double() : std::nullopt;
      if (!x || !y || !(*x >= kLeastSeconds && *x <= kMostSeconds) || !(*y >= kLeastFraction && *y <= 1))
        return bad(item, key,
                   fmt::format("expected [seconds from {:g} to {:g}, fraction from {:g} to 1]", kLeastSeconds,
                               kMostSeconds, kLeastFraction));
      if (!points.empty() && *x <= points.back().seconds)
        return bad(item, key, "expected seconds in rising order");
      // seconds ÷ fraction must rise, else more work would take less time.
      if (!points.empty() && *x / *y < points.back().seconds / points.back().fraction)
        return bad(item, key, "expected fractions under which more work takes more time");
      points.push_back({*x, *y});
    }
    out = EfficiencyCurve(std::move(points));
    return {};
  }

  const Document& document_;
  std::string file_;
};

void note_stated(const Document& document, std::set<std::string>& stated) {
  for (const auto& [section, figures] : document.entries())
    for (const auto& [key, value] : figures.entries()) stated.insert(section + "." + key);
}

/// `document` over the profiles that it builds on.
Status read_over(const Document& document, const std::string& file, const FindProfile& find, int depth,
                 std::set<std::string>& stated, Hardware& out) {
  const Reader reader(document, file);
  if (const Document* like = document.find("like")) {
    if (depth >= kLikeDepth) return reader.bad(*like, "like", "profiles name each other in a circle");
    if (!find) return reader.bad(*like, "like", "no profiles to take figures from");
    const auto base = find(like->text());
    if (!base) return reader.bad(*like, "like", base.error().message);
    HEADROOM_TRY(read_over(*base, "profile " + like->text(), find, depth + 1, stated, out));
  }
  note_stated(document, stated);
  HEADROOM_TRY(reader.names(out));
  return reader.figures(out);
}

Document number(double value) {
  return Document::scalar(fmt::format("{}", value));
}

Document field_value(const HardwareField& field, const Hardware& hardware) {
  switch (field.kind) {
    case Kind::bytes:
      return Document::scalar(fmt::format("{}B", whole_figure(field, hardware)));
    case Kind::count:
      return Document::scalar(fmt::format("{}", whole_figure(field, hardware)));
    case Kind::rate:
    case Kind::seconds:
    case Kind::share:
      return number(real_figure(field, hardware));
    case Kind::curve:
      break;
  }
  Document points = Document::list();
  for (const auto& point : curve_figure(field, hardware).points()) {
    Document pair = Document::list();
    pair.append(number(point.seconds));
    pair.append(number(point.fraction));
    points.append(std::move(pair));
  }
  return points;
}

}  // namespace

Result<Hardware> read_hardware(const Document& document, const std::string& file, const FindProfile& find) {
  if (!document.is_map())
    return fail(
        Error{.message = "expected a hardware profile", .file = file, .line = document.line(), .key = {}});
  Hardware out;
  std::set<std::string> stated;
  HEADROOM_TRY(read_over(document, file, find, 0, stated, out));
  HEADROOM_TRY(Reader(document, file).complete(stated));
  return out;
}

Document write_hardware(const Hardware& hardware) {
  Document out = Document::map();
  out.set("name", Document::scalar(hardware.name));
  Document names = Document::list();
  for (const std::string& name : hardware.short_names) names.append(Document::scalar(name));
  out.set("short_names", std::move(names));
  if (!hardware.versions.empty()) {
    Document versions = Document::map();
    for (const auto& [key, value] : hardware.versions) versions.set(key, Document::scalar(value, 0, true));
    out.set("versions", std::move(versions));
  }
  for (const HardwareField& field : hardware_fields()) {
    const bool whole = field.kind == Kind::bytes || field.kind == Kind::count;
    if (field.optional && whole && whole_figure(field, hardware) == 0) continue;
    if (out.find(field.section) == nullptr) out.set(field.section, Document::map());
    out.find(field.section)->set(field.key, field_value(field, hardware));
  }
  for (const auto& [section, source] : hardware.sources)
    if (Document* figures = out.find(section)) figures->set("source", Document::scalar(source));
  return out;
}

}  // namespace headroom
