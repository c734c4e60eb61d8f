#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "models/base/nearest.h"
#include "models/document/document.h"
#include "planner/frameworks/registry.h"
#include "planner/study/study.h"
#include "simulator/hardware/library.h"

namespace headroom::study {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 7> kTop = {"headroom",    "name",       "steps", "gpu",
                                                  "empty_cache", "strategies", "jobs"};
constexpr std::array<std::string_view, 3> kStrategy = {"name", "set", "change"};
constexpr std::array<std::string_view, 11> kJob = {"name",          "file",  "set",         "framework",
                                                   "gpu",           "model", "nodes",       "gpus_per_node",
                                                   "words",         "environment", "strategies"};
/// Also of jobs.
constexpr std::string_view kEmptyCache = "empty_cache";
constexpr std::int64_t kMostCells = 100'000;

class Reader {
 public:
  explicit Reader(const std::string& file) {
    study_.file = file;
    study_.name = fs::path(file).stem().string();
  }

  Result<Study> read(const Document& top) {
    if (!top.is_map()) return bad(top, "", "expected a map that begins with `headroom: study/1`");
    HEADROOM_TRY(known(top, kTop, "", false));
    const Document* format = top.find("headroom");
    if (format == nullptr || format->text() != "study/1")
      return bad(format == nullptr ? top : *format, "headroom", "expected study/1");
    if (const Document* name = top.find("name")) {
      HEADROOM_ASSIGN(study_.name, text(*name, "name"));
    }
    if (const Document* steps = top.find("steps")) {
      HEADROOM_ASSIGN(const std::int64_t count, number(*steps, "steps", 1, 100));
      study_.steps = static_cast<int>(count);
    }
    if (const Document* gpu = top.find("gpu")) {
      HEADROOM_ASSIGN(gpu_, gpu_name(*gpu, "gpu"));
    }
    study_.empty_cache = {Emptying::never, Emptying::phases};
    if (const Document* when = top.find(kEmptyCache)) {
      HEADROOM_ASSIGN(study_.empty_cache, emptyings(*when, std::string(kEmptyCache)));
    }
    HEADROOM_TRY(strategies(top));
    HEADROOM_TRY(jobs(top));
    const std::size_t cells = places(study_).size();
    if (cells == 0) return bad(top, "jobs", "expected at least one cell: no strategy says anything for these jobs");
    if (cells > kMostCells) return bad(top, "jobs", fmt::format("expected at most {} cells, found {}", kMostCells, cells));
    return std::move(study_);
  }

 private:
  tl::unexpected<Error> bad(const Document& at, std::string key, std::string message) const {
    return fail(Error{.message = std::move(message), .file = study_.file, .line = at.line(), .key = std::move(key)});
  }

  Status known(const Document& map, std::span<const std::string_view> keys, const std::string& at, bool job) const {
    for (const auto& [key, value] : map.entries()) {
      if (std::find(keys.begin(), keys.end(), key) != keys.end() || (job && key == kEmptyCache)) continue;
      const std::string near = nearest(key, keys);
      return bad(value, at.empty() ? key : at + "." + key,
                 near.empty() ? "unknown key" : fmt::format("unknown key; nearest is {}", near));
    }
    return {};
  }

  Result<std::string> text(const Document& value, const std::string& key) const {
    if (!value.is_scalar() || value.text().empty()) return bad(value, key, "expected a text");
    return value.text();
  }
  Result<std::int64_t> number(const Document& value, const std::string& key, std::int64_t low, std::int64_t high) const {
    const auto found = value.is_scalar() ? value.as_int() : std::nullopt;
    if (!found || *found < low || *found > high)
      return bad(value, key, fmt::format("expected a whole number from {} to {}, found '{}'", low, high, value.text()));
    return *found;
  }
  Result<std::string> gpu_name(const Document& value, const std::string& key) const {
    HEADROOM_ASSIGN(std::string name, text(value, key));
    if (name.find('/') != std::string::npos) name = beside(name);
    if (const Result<Hardware> found = load_hardware(name); !found)
      return bad(value, key, found.error().text());
    return name;
  }
  /// A file named in the study lies beside it.
  std::string beside(const std::string& name) const {
    const fs::path path(name);
    return path.is_absolute() ? name : (fs::path(study_.file).parent_path() / path).lexically_normal().string();
  }

  std::vector<Document> list_of(const Document& value) const {
    return value.is_list() ? value.items() : std::vector<Document>{value};
  }

  Result<std::vector<Emptying>> emptyings(const Document& value, const std::string& key) const {
    std::vector<Emptying> out;
    for (const Document& item : list_of(value)) {
      const auto when = parse_emptying(item.text());
      if (!when) {
        const std::string near = nearest(item.text(), kEmptyings);
        return bad(item, key, fmt::format("expected one of {}, found '{}'{}", fmt::join(kEmptyings, ", "), item.text(),
                                          near.empty() ? "" : "; did you mean '" + near + "'?"));
      }
      if (std::find(out.begin(), out.end(), *when) != out.end())
        return bad(item, key, fmt::format("{} is given twice", item.text()));
      out.push_back(*when);
    }
    if (out.empty()) return bad(value, key, "expected at least one word");
    return out;
  }

  /// `KEY: VALUE` pairs, or a list of `KEY=VALUE`, as `--set` takes them.
  Result<std::vector<std::string>> overrides(const Document& value, const std::string& key) const {
    std::vector<std::string> out;
    if (value.is_list()) {
      for (const Document& item : value.items()) {
        if (item.text().find('=') == std::string::npos)
          return bad(item, key, fmt::format("expected KEY=VALUE, found '{}'", item.text()));
        out.push_back(item.text());
      }
      return out;
    }
    if (!value.is_map()) return bad(value, key, "expected KEY: VALUE pairs, or a list of KEY=VALUE");
    for (const auto& [name, one] : value.entries()) {
      if (!one.is_scalar() && !one.is_null())
        return bad(one, key + "." + name, "expected one value; a list can be given as KEY=VALUE");
      out.push_back(name + "=" + (one.is_null() ? "null" : one.text()));
    }
    return out;
  }

  // --- Strategies

  Status strategies(const Document& top) {
    const Document* list = top.find("strategies");
    if (list == nullptr) {
      study_.strategies.push_back({.name = "none", .set = {}, .changes = {}});
      return {};
    }
    if (!list->is_list()) return bad(*list, "strategies", "expected a list of strategies, each with a name");
    for (const Document& item : list->items()) HEADROOM_TRY(strategy(item));
    if (study_.strategies.empty()) return bad(*list, "strategies", "expected at least one");
    return {};
  }

  Status strategy(const Document& item) {
    if (!item.is_map()) return bad(item, "strategies", "expected a map with a name");
    HEADROOM_TRY(known(item, kStrategy, "strategies", false));
    Strategy out;
    out.line = item.line();
    HEADROOM_ASSIGN(out.name, name_of(item, "strategies", strategy_names_));
    if (const Document* set = item.find("set")) {
      if (!set->is_map()) return bad(*set, "strategies.set", "expected a map by framework");
      for (const auto& [framework, values] : set->entries()) {
        HEADROOM_TRY(framework_known(values, framework, "strategies.set"));
        HEADROOM_ASSIGN(out.set[framework], overrides(values, "strategies.set." + framework));
      }
    }
    if (const Document* change = item.find("change")) {
      if (!change->is_map()) return bad(*change, "strategies.change", "expected a map of changes");
      for (const auto& [kind, value] : change->entries()) {
        Result<Change> made = make_change(kind, value);
        if (!made) return bad(value, "strategies.change." + kind, made.error().message);
        out.changes.push_back(std::move(*made));
      }
    }
    study_.strategies.push_back(std::move(out));
    return {};
  }

  Status framework_known(const Document& at, const std::string& name, const std::string& key) const {
    if (find_framework(name) != nullptr) return {};
    std::vector<std::string_view> names;
    for (const Framework& framework : frameworks()) names.push_back(framework.name);
    const std::string near = nearest(name, names);
    return bad(at, key, fmt::format("expected a framework ({}), found '{}'{}", fmt::join(names, ", "), name,
                                    near.empty() ? "" : "; did you mean '" + near + "'?"));
  }

  Result<std::string> name_of(const Document& item, const std::string& list, std::set<std::string>& taken) const {
    const Document* name = item.find("name");
    if (name == nullptr) return bad(item, list + ".name", "expected a name, found none");
    HEADROOM_ASSIGN(std::string out, text(*name, list + ".name"));
    if (!taken.insert(out).second) return bad(*name, list + ".name", fmt::format("'{}' is taken", out));
    return out;
  }

  // --- Jobs

  Status jobs(const Document& top) {
    const Document* list = top.find("jobs");
    if (list == nullptr || !list->is_list() || list->items().empty())
      return bad(list == nullptr ? top : *list, "jobs", "expected a list of jobs, each with a name and a file");
    for (const Document& item : list->items()) HEADROOM_TRY(job(item));
    return {};
  }

  Status job(const Document& item) {
    if (!item.is_map()) return bad(item, "jobs", "expected a map with a name and a file");
    HEADROOM_TRY(known(item, kJob, "jobs", true));
    StudyJob out;
    out.line = item.line();
    HEADROOM_ASSIGN(out.name, name_of(item, "jobs", job_names_));
    const Document* file = item.find("file");
    if (file == nullptr) return bad(item, "jobs.file", "expected a configuration's file, found none");
    HEADROOM_ASSIGN(out.file, text(*file, "jobs.file"));
    out.file = beside(out.file);
    if (std::error_code error; !fs::exists(out.file, error))
      return bad(*file, "jobs.file", fmt::format("there is no {}", out.file));
    HEADROOM_TRY(options(item, out.options));
    if (const Document* when = item.find(kEmptyCache)) {
      HEADROOM_ASSIGN(out.empty_cache, emptyings(*when, "jobs.empty_cache"));
    }
    if (const Document* names = item.find("strategies")) HEADROOM_TRY(chosen(*names, out.strategies));
    study_.jobs.push_back(std::move(out));
    return {};
  }

  Status options(const Document& item, JobOptions& out) const {
    out.steps = study_.steps;
    out.gpu = gpu_;
    if (const Document* value = item.find("set")) {
      HEADROOM_ASSIGN(out.overrides, overrides(*value, "jobs.set"));
    }
    if (const Document* value = item.find("framework")) {
      HEADROOM_TRY(framework_known(*value, value->text(), "jobs.framework"));
      out.framework = value->text();
    }
    if (const Document* value = item.find("gpu")) {
      HEADROOM_ASSIGN(out.gpu, gpu_name(*value, "jobs.gpu"));
    }
    if (const Document* value = item.find("model")) {
      HEADROOM_ASSIGN(out.model, text(*value, "jobs.model"));
    }
    for (const auto& [key, member] :
         {std::pair{"nodes", &out.nodes}, std::pair{"gpus_per_node", &out.gpus_per_node}})
      if (const Document* value = item.find(key)) {
        HEADROOM_ASSIGN(*member, number(*value, std::string("jobs.") + key, 1, 1'000'000));
      }
    if (const Document* value = item.find("words"))
      for (const Document& word : list_of(*value)) out.words.push_back(word.text());
    if (const Document* value = item.find("environment")) {
      if (!value->is_map()) return bad(*value, "jobs.environment", "expected NAME: VALUE pairs");
      for (const auto& [name, one] : value->entries()) out.environment[name] = one.text();
    }
    return {};
  }

  Status chosen(const Document& value, std::vector<std::string>& out) const {
    std::vector<std::string_view> names(strategy_names_.begin(), strategy_names_.end());
    if (names.empty()) names.push_back("none");
    for (const Document& item : list_of(value)) {
      if (std::find(names.begin(), names.end(), item.text()) == names.end()) {
        const std::string near = nearest(item.text(), names);
        return bad(item, "jobs.strategies", fmt::format("no strategy is named '{}'{}", item.text(),
                                                        near.empty() ? "" : "; did you mean '" + near + "'?"));
      }
      out.push_back(item.text());
    }
    return {};
  }

  Study study_;
  std::string gpu_;
  std::set<std::string> strategy_names_, job_names_;
};

}  // namespace

Result<Study> read_study(const std::string& file) {
  HEADROOM_ASSIGN(const Document document, read_document(file));
  return Reader(file).read(document);
}

}  // namespace headroom::study
