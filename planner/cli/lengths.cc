#include "planner/cli/lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "models/base/nearest.h"
#include "models/document/document.h"

namespace headroom::cli {
namespace {

constexpr const char* kFlag = "--lengths";

tl::unexpected<Error> wrong(const std::string& file, int line, std::string key, std::string message) {
  return fail(Error{.message = std::move(message),
                    .file = file,
                    .line = line,
                    .key = file.empty() ? fmt::format("{} {}", kFlag, key) : std::move(key)});
}

/// `a=1,b=2` as the map that a file would hold.
Result<Document> inline_document(const std::string& text) {
  Document map = Document::map();
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::string part = text.substr(start, end - start);
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) return wrong("", 0, "", fmt::format("expected KEY=N, found '{}'", part));
    map.set(part.substr(0, equals), Document::scalar(part.substr(equals + 1)));
    start = end + 1;
  }
  return map;
}

struct Figures {
  double prompt = 0, response = 0, mean = 0, max = 0;
  std::string source;
};

Result<Figures> figures_of(const Document& document, const std::string& file) {
  if (!document.is_map()) return wrong(file, document.line(), "", "expected a map of lengths");
  Figures figures;
  const std::array<std::pair<std::string_view, double*>, 4> places = {{{"prompt", &figures.prompt},
                                                                       {"response", &figures.response},
                                                                       {"mean", &figures.mean},
                                                                       {"max", &figures.max}}};
  static constexpr std::array<std::string_view, 5> kKeys = {"prompt", "response", "mean", "max", "source"};
  for (const auto& [key, value] : document.entries()) {
    if (key == "source") {
      figures.source = value.text();
      continue;
    }
    const auto place =
        std::find_if(places.begin(), places.end(), [&](const auto& one) { return one.first == key; });
    if (place == places.end()) {
      const std::string near = nearest(key, kKeys);
      return wrong(file, value.line(), key,
                   "expected one of prompt, response, mean, max, source" +
                       (near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
    }
    const std::optional<double> number = value.as_double();
    if (!number || !(*number > 0) || *number > 1e9)
      return wrong(file, value.line(), key,
                   fmt::format("expected a positive number of tokens, found '{}'", value.text()));
    *place->second = *number;
  }
  return figures;
}

}  // namespace

Result<Lengths> read_lengths(const std::string& text, const Batch& caps) {
  const bool is_file = text.find('=') == std::string::npos;
  const std::string file = is_file ? text : "";
  HEADROOM_ASSIGN(const Document document, is_file ? read_document(text) : inline_document(text));
  HEADROOM_ASSIGN(const Figures figures, figures_of(document, file));
  Lengths lengths;
  lengths.source = figures.source.empty() ? text : figures.source;
  lengths.mean_prompt = figures.prompt;
  lengths.mean_response = figures.response;
  lengths.max_total = static_cast<std::int64_t>(figures.max);
  if (figures.mean > 0) {
    const double share =
        figures.mean / static_cast<double>(std::max<std::int64_t>(1, caps.sequence_length()));
    if (lengths.mean_prompt == 0) lengths.mean_prompt = share * static_cast<double>(caps.prompt_length);
    if (lengths.mean_response == 0) lengths.mean_response = share * static_cast<double>(caps.response_length);
  }
  if (lengths.mean_prompt == 0 && lengths.mean_response == 0)
    return wrong(file, 0, "", "expected a mean (prompt, response or mean), found none");
  if (lengths.mean_prompt > static_cast<double>(caps.prompt_length) ||
      lengths.mean_response > static_cast<double>(caps.response_length))
    return wrong(
        file, 0, "",
        fmt::format("expected means of at most the caps ({} and {} tokens), found {} and {}",
                    caps.prompt_length, caps.response_length, lengths.mean_prompt, lengths.mean_response));
  return lengths;
}

Job at_expected_lengths(const Job& job, const Lengths& lengths) {
  Job expected = job;
  const auto tokens = [](double mean, std::int64_t cap) {
    return mean > 0 ? static_cast<std::int64_t>(std::ceil(mean)) : cap;
  };
  expected.batch.prompt_length = tokens(lengths.mean_prompt, job.batch.prompt_length);
  expected.batch.response_length = tokens(lengths.mean_response, job.batch.response_length);
  return expected;
}

}  // namespace headroom::cli
