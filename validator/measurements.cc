#include "validator/measurements.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

namespace headroom::gpu {

std::string to_json(const Measurements& m) {
  using Json = nlohmann::ordered_json;
  Json memory = Json::array(), rates = Json::array();
  for (const MemoryPoint& p : m.memory) {
    memory.push_back({{"action", p.action}, {"used", p.used}, {"added", p.added}});
  }
  for (const RatePoint& p : m.rates) {
    rates.push_back({{"kind", p.kind},
                     {"shape", p.shape},
                     {"dtype", std::string(name(p.dtype))},
                     {"flops", p.flops},
                     {"bytes", p.bytes},
                     {"seconds", p.seconds}});
  }
  return Json{{"schema", "headroom.measurements/1"},
              {"gpu", m.gpu},
              {"gpus", m.gpus},
              {"multiprocessors", m.multiprocessors},
              {"total_memory", m.total_memory},
              {"granularity", m.granularity},
              {"host_memory", m.host_memory},
              {"used_by_others", m.used_by_others},
              {"versions", m.versions},
              {"memory", memory},
              {"rates", rates},
              {"host", m.host},
              {"host_seconds", m.host_seconds},
              {"notes", m.notes}}
             .dump(1) +
         "\n";
}

namespace {

// More than any card or host has: what is beyond was never measured.
constexpr Bytes kMostBytes = Bytes{1} << 50;

/// Reads the figures of one map; the first that is missing or of another form is the error.
class Fields {
 public:
  Fields(const Document& map, const std::string& file) : map_(map), file_(file) {}

  std::string text(const char* key) { return scalar(key).text(); }
  /// A whole number from `least` to `most`: bytes of one machine unless said otherwise.
  Bytes whole(const char* key, Bytes least = 0, Bytes most = kMostBytes) {
    const Document& found = scalar(key);
    const auto value = found.as_int();
    if (value && *value >= least && *value <= most) return *value;
    note(key, fmt::format("expected a whole number from {} to {}, found {}", least, most, found.text()),
         &found);
    return 0;
  }
  /// A number from 0, above 0 where it is a time.
  double real(const char* key, bool above_zero = false) {
    const Document& found = scalar(key);
    const auto value = found.as_double();
    if (value && std::isfinite(*value) && (*value > 0 || (*value == 0 && !above_zero))) return *value;
    note(key, fmt::format("expected a number {} 0, found {}", above_zero ? "above" : "from", found.text()),
         &found);
    return 0;
  }
  DType dtype(const char* key) {
    const Document& found = scalar(key);
    const auto value = parse_dtype(found.text());
    if (!value) note(key, fmt::format("expected a dtype, found '{}'", found.text()), &found);
    return value.value_or(DType::bf16);
  }
  std::span<const Document> list(const char* key) {
    const Document* found = map_.find(key);
    if (found != nullptr && found->is_list()) return found->items();
    note(key, "expected a list");
    return {};
  }
  const Status& status() const { return status_; }

 private:
  const Document& scalar(const char* key) {
    static const Document none;
    const Document* found = map_.find(key);
    if (found != nullptr && found->is_scalar()) return *found;
    note(key, "expected a figure of `headroom calibrate --json`, found none");
    return none;
  }
  void note(const char* key, std::string expected, const Document* at = nullptr) {
    const int line = at != nullptr && at->line() > 0 ? at->line() : map_.line();
    if (status_)
      status_ = fail(Error{.message = std::move(expected), .file = file_, .line = line, .key = key});
  }

  const Document& map_;
  const std::string& file_;
  Status status_;
};

}  // namespace

Result<Measurements> read_measurements(const Document& document, const std::string& file) {
  Measurements m;
  Fields all(document, file);
  if (const std::string schema = all.text("schema"); all.status() && schema != "headroom.measurements/1")
    return fail(Error{.message = "expected headroom.measurements/1, found " + schema,
                      .file = file,
                      .line = document.line(),
                      .key = "schema"});
  m.gpu = all.text("gpu");
  m.gpus = static_cast<int>(all.whole("gpus", 1, 1 << 20));
  m.multiprocessors = static_cast<int>(all.whole("multiprocessors", 0, 1 << 20));
  m.total_memory = all.whole("total_memory");
  m.granularity = all.whole("granularity");
  m.host_memory = all.whole("host_memory");
  m.used_by_others = all.whole("used_by_others");
  if (const Document* versions = document.find("versions"))
    for (const auto& [what, version] : versions->entries()) m.versions[what] = version.text();
  if (document.find("host") != nullptr) m.host = all.text("host");
  if (const Document* pieces = document.find("host_seconds"); pieces != nullptr && !pieces->entries().empty()) {
    Fields seconds(*pieces, file);
    for (const auto& [piece, value] : pieces->entries())
      m.host_seconds[piece] = seconds.real(piece.c_str(), true);
    HEADROOM_TRY(seconds.status());
  }
  for (const Document& item : all.list("memory")) {
    Fields point(item, file);
    m.memory.push_back({point.text("action"), point.whole("used"), point.whole("added", -kMostBytes)});
    HEADROOM_TRY(point.status());
  }
  for (const Document& item : all.list("rates")) {
    Fields point(item, file);
    RatePoint rate{.kind = point.text("kind"),
                   .shape = point.text("shape"),
                   .dtype = point.dtype("dtype"),
                   .flops = point.real("flops"),
                   .bytes = point.real("bytes"),
                   .seconds = point.real("seconds", true)};
    HEADROOM_TRY(point.status());
    m.rates.push_back(std::move(rate));
  }
  HEADROOM_TRY(all.status());
  return m;
}

}  // namespace headroom::gpu
