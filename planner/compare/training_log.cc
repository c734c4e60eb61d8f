#include "planner/compare/training_log.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "models/document/document.h"

namespace headroom::compare {
namespace {

using Steps = std::map<std::int64_t, std::map<std::string, double>>;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\"";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

/// A number, also as `np.float64(1.5)` or `3.2s`.
std::optional<double> number(std::string_view text) {
  text = trimmed(text);
  if (const std::size_t open = text.find('('); text.starts_with("np.") && open != std::string_view::npos)
    text = text.substr(open + 1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  if (!rest.empty() && rest != "s" && rest != ")") return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view text, std::string_view by) {
  std::vector<std::string_view> out;
  for (std::size_t start = 0;;) {
    const std::size_t end = text.find(by, start);
    out.push_back(text.substr(start, end - start));
    if (end == std::string_view::npos) return out;
    start = end + by.size();
  }
}

/// `… step:3 - timing_s/gen:18.4 - …`
bool console_line(std::string_view line, Steps& out) {
  const std::size_t at = line.find("step:");
  if (at == std::string_view::npos || (at > 0 && line[at - 1] != ' ')) return false;
  std::optional<double> step;
  for (const std::string_view part : split(line.substr(at), " - ")) {
    const std::size_t colon = part.rfind(':');
    if (colon == std::string_view::npos) continue;
    const std::optional<double> value = number(part.substr(colon + 1));
    if (!value) continue;
    if (!step)
      step = value;
    else
      out[static_cast<std::int64_t>(*step)][std::string(trimmed(part.substr(0, colon)))] = *value;
  }
  return step.has_value();
}

/// NeMo RL's console: below `==== Step 3/20 ====` a list of results and one of times, a figure a line.
class Lists {
 public:
  bool line(std::string_view text, Steps& out) {
    constexpr std::string_view kStep = "= Step ", kItem = "\u2022 ";
    if (const std::size_t at = text.find(kStep); at != std::string_view::npos) {
      const std::string_view rest = text.substr(at + kStep.size());
      if (const auto step = number(rest.substr(0, rest.find('/')))) stated_ = static_cast<std::int64_t>(*step);
      list_ = {};
      return stated_.has_value();
    }
    const std::size_t item = text.find(kItem);
    if (item == std::string_view::npos) {
      if (const std::string_view title = trimmed(text); title.ends_with(':')) open(title);
      return false;
    }
    return !list_.empty() && figure(text.substr(item + kItem.size()), out);
  }

 private:
  void open(std::string_view title) {
    list_ = title.ends_with(" Timing:") && title.find("Validation") == std::string_view::npos ? "timing/train/"
            : title.ends_with("Training Results:")                                             ? "train/"
                                                                                               : "";
  }

  /// `policy_training: 25.05s (37.6%)`
  bool figure(std::string_view text, Steps& out) {
    struct Named {
      std::string_view shown, metric;
    };
    static constexpr Named kNamed[] = {{"Total step time", "total_step_time"},
                                       {"Mean Generation Length", "mean_gen_tokens_per_sample"}};
    const std::size_t colon = text.find(": ");
    if (colon == std::string_view::npos) return false;
    std::string_view name = text.substr(0, colon);
    const std::string_view value = trimmed(text.substr(colon + 2));
    const std::optional<double> figure = number(value.substr(0, value.find(' ')));
    if (!figure) return false;
    for (const Named& one : kNamed)
      if (one.shown == name) name = one.metric;
    const std::string metric = std::string(list_) + std::string(name);
    if (!stated_ || out[*stated_].contains(metric)) stated_ = out.empty() ? 1 : out.rbegin()->first + 1;
    out[*stated_][metric] = *figure;
    return true;
  }

  std::optional<std::int64_t> stated_;
  std::string_view list_;  ///< what its figures' names begin with; empty: no list of a step
};

void take_numbers(const Document& map, std::map<std::string, double>& out) {
  for (const auto& [key, value] : map.entries()) {
    if (value.is_map()) take_numbers(value, out);
    if (const std::optional<double> figure = value.is_scalar() ? value.as_double() : std::nullopt)
      out[key] = *figure;
  }
}

/// The step that an object of metrics states; `next` where it states none.
std::int64_t step_of(const Document& object, std::int64_t next) {
  for (const char* key : {"step", "_step", "global_step", "training/global_step"})
    if (const Document* value = object.find(key))
      if (const std::optional<double> step = value->as_double()) return static_cast<std::int64_t>(*step);
  return next;
}

bool object_line(std::string_view line, const std::string& file, Steps& out) {
  line = trimmed(line);
  const std::size_t open = line.find('{');
  if (open == std::string_view::npos || !line.ends_with('}')) return false;
  const Result<Document> object = parse_document(line.substr(open), file);
  if (!object || !object->is_map()) return false;
  const std::int64_t next = out.empty() ? 0 : out.rbegin()->first + 1;
  std::map<std::string, double> metrics;
  take_numbers(*object, metrics);
  if (metrics.empty()) return false;
  out[step_of(*object, next)].merge(metrics);
  return true;
}

/// Metric → step → value.
bool by_metric(const Document& whole, Steps& out) {
  for (const auto& [metric, values] : whole.entries()) {
    if (!values.is_map()) continue;
    for (const auto& [step, value] : values.entries())
      if (const auto at = number(step))
        if (const auto figure = value.as_double()) out[static_cast<std::int64_t>(*at)][metric] = *figure;
  }
  return !out.empty();
}

void log_history(const Document& history, Steps& out) {
  for (const Document& row : history.items()) {
    std::map<std::string, double> metrics;
    take_numbers(row, metrics);
    out[step_of(row, static_cast<std::int64_t>(out.size()))].merge(metrics);
  }
}

/// `Step,timing_s/gen,…`; W&B writes `run - timing_s/gen`.
bool columns(std::string_view text, Steps& out) {
  const std::vector<std::string_view> lines = split(text, "\n");
  const std::vector<std::string_view> names = split(lines.front(), ",");
  const auto step = std::find_if(names.begin(), names.end(), [](std::string_view name) {
    name = trimmed(name);
    return name == "Step" || name == "step" || name == "_step" || name == "global_step";
  });
  if (names.size() < 2 || step == names.end()) return false;
  const auto at = static_cast<std::size_t>(step - names.begin());
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string_view> cells = split(lines[i], ",");
    const std::optional<double> number_of = at < cells.size() ? number(cells[at]) : std::nullopt;
    if (!number_of) continue;
    for (std::size_t k = 0; k < std::min(cells.size(), names.size()); ++k) {
      std::string_view name = trimmed(names[k]);
      if (const std::size_t dash = name.rfind(" - "); dash != std::string_view::npos)
        name = name.substr(dash + 3);
      if (const auto value = k == at ? std::nullopt : number(cells[k]))
        out[static_cast<std::int64_t>(*number_of)][std::string(name)] = *value;
    }
  }
  return !out.empty();
}

void lines(std::string_view text, const std::string& file, Steps& out) {
  Lists lists;
  for (const std::string_view line : split(text, "\n"))
    if (!console_line(line, out) && !lists.line(line, out)) object_line(line, file, out);
}

}  // namespace

bool is_recording(const std::string& text) {
  const Result<Document> whole = parse_document(text, "");
  return whole && whole->is_map() && whole->find("phases") != nullptr;
}

Result<TrainingLog> parse_training_log(const std::string& text, const std::string& file) {
  Steps steps;
  if (!columns(text, steps)) {
    const std::string_view whole = trimmed(text);
    const Result<Document> document =
        whole.starts_with('{') ? parse_document(whole, file) : Result<Document>(Document::null());
    if (document && document->is_map() && document->find("log_history") != nullptr)
      log_history(*document->find("log_history"), steps);
    else if (!document || !document->is_map() || !by_metric(*document, steps))
      lines(text, file, steps);
  }
  if (steps.empty())
    return fail(Error{.message =
                          "expected metrics of steps: a console with `step:1 - timing_s/gen:…`, JSON lines, "
                          "a trainer's state or exported columns; found none",
                      .file = file,
                      .key = {}});
  TrainingLog out{.file = file, .steps = {}};
  for (auto& [step, metrics] : steps) out.steps.push_back({step, std::move(metrics)});
  return out;
}

Result<TrainingLog> read_training_log(const std::string& path) {
  constexpr std::int64_t kMost = 256 << 20;
  HEADROOM_ASSIGN(const std::string text, read_text(path, kMost));
  return parse_training_log(text, path);
}

}  // namespace headroom::compare
