#include "validator/measurements.h"

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
              {"notes", m.notes}}
             .dump(1) +
         "\n";
}

namespace {

/// Reads the figures of one map; the first that is missing or of another form is the error.
class Fields {
 public:
  Fields(const Document& map, const std::string& file) : map_(map), file_(file) {}

  std::string text(const char* key) { return scalar(key).text(); }
  Bytes whole(const char* key) {
    const auto value = scalar(key).as_int();
    if (!value) note(key, "expected a whole number");
    return value.value_or(0);
  }
  double real(const char* key) {
    const auto value = scalar(key).as_double();
    if (!value) note(key, "expected a number");
    return value.value_or(0);
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
  void note(const char* key, const char* expected) {
    if (status_) status_ = fail(Error{.message = expected, .file = file_, .line = map_.line(), .key = key});
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
  m.gpus = static_cast<int>(all.whole("gpus"));
  m.multiprocessors = static_cast<int>(all.whole("multiprocessors"));
  m.total_memory = all.whole("total_memory");
  m.granularity = all.whole("granularity");
  m.host_memory = all.whole("host_memory");
  m.used_by_others = all.whole("used_by_others");
  if (const Document* versions = document.find("versions"))
    for (const auto& [what, version] : versions->entries()) m.versions[what] = version.text();
  for (const Document& item : all.list("memory")) {
    Fields point(item, file);
    m.memory.push_back({point.text("action"), point.whole("used"), point.whole("added")});
    HEADROOM_TRY(point.status());
  }
  for (const Document& item : all.list("rates")) {
    Fields point(item, file);
    RatePoint rate{.kind = point.text("kind"),
                   .shape = point.text("shape"),
                   .dtype = parse_dtype(point.text("dtype")).value_or(DType::bf16),
                   .flops = point.real("flops"),
                   .bytes = point.real("bytes"),
                   .seconds = point.real("seconds")};
    HEADROOM_TRY(point.status());
    if (rate.seconds > 0) m.rates.push_back(std::move(rate));
  }
  HEADROOM_TRY(all.status());
  return m;
}

}  // namespace headroom::gpu
