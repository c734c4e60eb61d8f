#include "planner/cli/gate/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "models/base/nearest.h"
#include "models/document/document.h"
#include "models/base/pattern.h"

namespace headroom::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 12> kKeys = {
    "gpu",          "budget",           "host_budget", "margin", "steps",    "max_growth",
    "undetermined", "allowed_warnings", "skip",        "match",  "headroom", "paths"};

class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  tl::unexpected<Error> bad(const Document& at, std::string key, std::string message) const {
    return fail(Error{.message = std::move(message), .file = file_, .line = at.line(), .key = std::move(key)});
  }

  /// The rules of a map; `top`: of the whole file, which has `headroom` and `paths` instead of `match`.
  Result<Rules> rules(const Document& map, bool top) const {
    Rules out;
    for (const auto& [key, value] : map.entries()) {
      const bool elsewhere = top ? key == "match" : key == "headroom" || key == "paths";
      if (elsewhere || std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
        const std::string near = nearest(key, kKeys);
        return bad(value, key, near.empty() ? "unknown key" : fmt::format("unknown key; nearest is {}", near));
      }
      HEADROOM_TRY(rule(key, value, out));
    }
    return out;
  }

 private:
  Status rule(const std::string& key, const Document& value, Rules& out) const {
    if (key == "gpu") {
      if (value.text().empty()) return bad(value, key, "expected a GPU's name");
      out.gpu = value.text();
    } else if (key == "budget") {
      return budgets(value, out);
    } else if (key == "host_budget") {
      const Result<Bytes> bytes = parse_bytes(value.text());
      if (!bytes || *bytes <= 0)
        return bad(value, key, bytes ? "expected more than nothing" : bytes.error().message);
      out.host_budget = *bytes;
    } else if (key == "margin") {
      const Result<Limit> margin = parse_limit(value.text());
      if (!margin) return bad(value, key, margin.error().message);
      out.margin = *margin;
    } else if (key == "steps") {
      const auto steps = value.as_int();
      if (!steps || *steps < 1 || *steps > 1000)
        return bad(value, key, fmt::format("expected a whole number from 1 to 1000, found {}", value.text()));
      out.steps = static_cast<int>(*steps);
    } else if (key == "max_growth") {
      const Result<double> growth = parse_growth(value.text());
      if (!growth) return bad(value, key, growth.error().message);
      out.max_growth = *growth;
    } else if (key == "undetermined") {
      return undetermined(value, out);
    } else if (key == "allowed_warnings") {
      if (!value.is_list()) return bad(value, key, "expected a list of warnings' codes");
      out.allowed_warnings.emplace();
      for (const Document& code : value.items()) out.allowed_warnings->insert(code.text());
    } else if (key == "skip") {
      const auto skip = value.as_bool();
      if (!skip) return bad(value, key, fmt::format("expected true or false, found {}", value.text()));
      out.skip = *skip;
    }
    return {};
  }

  Status budgets(const Document& value, Rules& out) const {
    std::vector<Document> items = value.items();
    if (!value.is_list()) items = {value};
    for (const Document& item : items) {
      const Result<Limit> limit = parse_limit(item.text());
      if (!limit) return bad(item, "budget", limit.error().message);
      out.budgets.push_back(*limit);
    }
    return {};
  }

  Status undetermined(const Document& value, Rules& out) const {
    if (value.text() == "fits") {
      out.undetermined = Undetermined::fits;
    } else if (value.text() == "over") {
      out.undetermined = Undetermined::over;
    } else if (value.text() == "undetermined") {
      out.undetermined = Undetermined::undetermined;
    } else {
      return bad(value, "undetermined",
                 fmt::format("expected fits, over or undetermined, found {}", value.text()));
    }
    return {};
  }

  std::string file_;
};

void lay_over(const Rules& over, Rules& rules) {
  if (over.gpu) rules.gpu = over.gpu;
  if (!over.budgets.empty()) rules.budgets = over.budgets;
  if (over.host_budget) rules.host_budget = over.host_budget;
  if (over.margin) rules.margin = over.margin;
  if (over.steps) rules.steps = over.steps;
  if (over.max_growth) rules.max_growth = over.max_growth;
  if (over.undetermined) rules.undetermined = over.undetermined;
  if (over.allowed_warnings) rules.allowed_warnings = over.allowed_warnings;
  rules.skip = rules.skip || over.skip;
}

}  // namespace

Result<Policy> Policy::read(const std::string& file) {
  HEADROOM_ASSIGN(const Document document, read_document(file));
  const Reader reader(file);
  const Document* format = document.find("headroom");
  if (format == nullptr || format->text() != "policy/1")
    return reader.bad(format == nullptr ? document : *format, "headroom", "expected policy/1");
  Policy policy;
  policy.folder_ = fs::absolute(file).parent_path().string();
  HEADROOM_ASSIGN(policy.all_, reader.rules(document, true));
  const Document* paths = document.find("paths");
  if (paths != nullptr && !paths->is_list())
    return reader.bad(*paths, "paths", "expected a list of rules, each with `match`");
  for (const Document& item : paths == nullptr ? std::vector<Document>{} : paths->items()) {
    const Document* match = item.find("match");
    if (match == nullptr || match->text().empty())
      return reader.bad(item, "paths", "expected `match` with a pattern of paths");
    Entry entry{match->text(), {}};
    HEADROOM_ASSIGN(entry.rules, reader.rules(item, false));
    policy.entries_.push_back(std::move(entry));
  }
  return policy;
}

Rules Policy::of(const std::string& path) const {
  Rules rules = all_;
  const std::string relative = fs::absolute(path).lexically_normal().lexically_relative(folder_).string();
  for (const Entry& entry : entries_)
    if (matches(entry.match, relative, PatternOf::path)) lay_over(entry.rules, rules);
  return rules;
}

Common with_rules(const Common& common, const Rules& rules) {
  Common out = common;
  if (!out.gpu) out.gpu = rules.gpu;
  if (out.budgets.empty()) out.budgets = rules.budgets;
  if (!out.host_budget) out.host_budget = rules.host_budget;
  if (!out.margin) out.margin = rules.margin;
  if (!out.steps) out.steps = rules.steps;
  return out;
}

Result<double> parse_growth(std::string_view text) {
  const bool percent = text.ends_with('%');
  const auto number =
      Document::scalar(std::string(percent ? text.substr(0, text.size() - 1) : text)).as_double();
  const double part = number.value_or(-1) / (percent ? 100 : 1);
  if (!(part >= 0 && part <= 10))
    return fail(fmt::format("expected a part from 0 to 10, as 2% or 0.02, found '{}'", text));
  return part;
}

}  // namespace headroom::cli
