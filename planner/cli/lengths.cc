#include "planner/cli/lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <vector>

#include "models/base/embedded.h"
#include "models/base/nearest.h"
#include "models/document/document.h"
#include "planner/configuration/listed_batches.h"
#include "simulator/job/batching.h"
#include "simulator/job/response_lengths.h"

namespace headroom {
std::span<const EmbeddedFile> embedded_lengths();
}

namespace headroom::cli {
namespace {

constexpr const char* kFlag = "--lengths";
constexpr double kLongest = 1e9;

tl::unexpected<Error> wrong(const std::string& file, int line, std::string key, std::string message) {
  return fail(Error{.message = std::move(message),
                    .file = file,
                    .line = line,
                    .key = file.empty() ? fmt::format("{} {}", kFlag, key) : std::move(key)});
}

struct Figures {
  double prompt = 0, response = 0, mean = 0, max = 0, spread = 0;
  double prompt_max = 0;  ///< with it, the longest sequence is one whose response is as long as the cap
  std::string source;
};

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

/// A length a line, as a list; nothing when the text is something else.
std::optional<Document> lines_document(const std::string& text) {
  Document list = Document::list();
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos || line[first] == '#') continue;
    Document value = Document::scalar(line.substr(first, line.find_last_not_of(" \t\r") - first + 1), number);
    if (!value.as_double()) return std::nullopt;
    list.append(std::move(value));
  }
  return list.items().empty() ? std::nullopt : std::optional(std::move(list));
}

/// A file, or a dataset by its name.
Result<Document> named_document(const std::string& name, std::string& file) {
  std::vector<std::string> known;
  for (const EmbeddedFile& data : embedded_lengths()) {
    const std::string stem = std::filesystem::path(data.path).stem().string();
    if (stem == name && !std::filesystem::exists(name)) {
      file = data.path;
      return parse_document(data.text, file);
    }
    known.push_back(stem);
  }
  std::error_code error;
  if (!std::filesystem::exists(name, error)) {
    std::string names;
    for (const std::string& one : known) names += (names.empty() ? "" : ", ") + one;
    return wrong("", 0, "",
                 fmt::format("expected KEY=N,…, a file, or a known dataset ({}), found '{}'", names, name));
  }
  HEADROOM_ASSIGN(const std::string text, read_text(name));
  if (std::optional<Document> lines = lines_document(text)) return std::move(*lines);
  return parse_document(text, name);
}

Result<double> length_of(const Document& value, const std::string& key, const std::string& file) {
  const std::optional<double> number = value.as_double();
  if (number && *number > 0 && *number <= kLongest) return *number;
  return wrong(file, value.line(), key,
               fmt::format("expected a positive number of tokens, found '{}'", value.text()));
}

struct Measured {
  double mean = 0, max = 0, variance = 0;
};

/// Mean, longest and variance of a list, each length cut at `cap`.
Result<Measured> measure(const Document& list, double cap, const std::string& key, const std::string& file) {
  if (list.items().empty()) return wrong(file, list.line(), key, "expected lengths, found an empty list");
  Measured out;
  double squares = 0;
  for (const Document& item : list.items()) {
    HEADROOM_ASSIGN(const double stated, length_of(item, key, file));
    const double length = std::min(stated, cap);
    out.mean += length;
    squares += length * length;
    out.max = std::max(out.max, length);
  }
  const auto count = static_cast<double>(list.items().size());
  out.mean /= count;
  out.variance = std::max(0.0, squares / count - out.mean * out.mean);
  return out;
}

Result<Figures> figures_of(const Document& document, const Batch& caps, const std::string& file) {
  Figures figures;
  if (document.is_list()) {
    HEADROOM_ASSIGN(const Measured all,
                    measure(document, static_cast<double>(caps.sequence_length()), "", file));
    figures.mean = all.mean;
    figures.max = all.max;
    figures.spread = std::sqrt(all.variance);
    return figures;
  }
  if (!document.is_map())
    return wrong(file, document.line(), "", "expected a map of lengths, a list, or a length a line");
  struct Place {
    std::string_view key;
    double* figure;
    std::int64_t cap;  ///< of one item of a list; 0: no list is taken
  };
  const std::array<Place, 6> places = {{{"prompt", &figures.prompt, caps.prompt_length},
                                        {"response", &figures.response, caps.response_length},
                                        {"mean", &figures.mean, 0},
                                        {"max", &figures.max, 0},
                                        {"spread", &figures.spread, 0},
                                        {"prompt_max", &figures.prompt_max, 0}}};
  static constexpr std::array<std::string_view, 8> kKeys = {"prompt", "response",   "mean",  "max",
                                                            "spread", "prompt_max", "rows",  "source"};
  double longest = 0, variance = 0;
  bool lists = false;
  for (const auto& [key, value] : document.entries()) {
    if (key == "source") figures.source = value.text();
    // rows: how much of a mixture a dataset is; models: what is known with others (dataset_lengths.h)
    if (key == "source" || key == "rows" || key == "models") continue;
    const auto place =
        std::find_if(places.begin(), places.end(), [&](const Place& one) { return one.key == key; });
    if (place == places.end()) {
      const std::string near = nearest(key, kKeys);
      return wrong(file, value.line(), key,
                   "expected one of prompt, response, mean, max, spread, prompt_max, source" +
                       (near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
    }
    if (value.is_list() && place->cap > 0) {
      HEADROOM_ASSIGN(const Measured all, measure(value, static_cast<double>(place->cap), key, file));
      *place->figure = all.mean;
      longest += all.max;
      variance += all.variance;
      lists = true;
    } else {
      HEADROOM_ASSIGN(*place->figure, length_of(value, key, file));
    }
  }
  if (lists && figures.max == 0) figures.max = longest;
  if (figures.prompt_max > 0 && figures.max == 0)
    figures.max = std::min(figures.prompt_max, static_cast<double>(caps.prompt_length)) +
                  static_cast<double>(caps.response_length);
  if (lists && figures.spread == 0) figures.spread = std::sqrt(variance);
  return figures;
}

}  // namespace

Result<Lengths> read_lengths(const std::string& text, const Job& job) {
  const Batch& caps = job.batch;
  const bool is_inline = text.find('=') != std::string::npos;
  std::string file = is_inline ? "" : text;
  HEADROOM_ASSIGN(const Document document, is_inline ? inline_document(text) : named_document(text, file));
  Lengths lengths;
  if (lists_batches(document)) {
    HEADROOM_ASSIGN(lengths.listed, listed_batches(document, job, file));
    lengths.source = text;
    return lengths;
  }
  HEADROOM_ASSIGN(const Figures figures, figures_of(document, caps, file));
  lengths.source = figures.source.empty() ? text : figures.source;
  lengths.mean_prompt = figures.prompt;
  lengths.mean_response = figures.response;
  lengths.spread = figures.spread;
  if (figures.max > 0 && figures.max < figures.mean)
    return wrong(file, 0, "",
                 fmt::format("expected a longest length of at least the mean, found {} and {}", figures.max,
                             figures.mean));
  lengths.max_total = std::min(static_cast<std::int64_t>(figures.max), caps.sequence_length());
  if (figures.mean > 0) {
    const double share =
        figures.mean / static_cast<double>(std::max<std::int64_t>(1, caps.sequence_length()));
    if (lengths.mean_prompt == 0) lengths.mean_prompt = share * static_cast<double>(caps.prompt_length);
    if (lengths.mean_response == 0) lengths.mean_response = share * static_cast<double>(caps.response_length);
  }
  if (lengths.mean_prompt == 0 && lengths.mean_response == 0)
    return wrong(file, 0, "", "expected a mean (prompt, response or mean), found none");
  if (!within_caps(lengths, caps))
    return wrong(
        file, 0, "",
        fmt::format("expected means of at most the caps ({} and {} tokens), found {} and {}",
                    caps.prompt_length, caps.response_length, lengths.mean_prompt, lengths.mean_response));
  return lengths;
}

namespace {

std::int64_t longest_prompt(const Batch& caps) {
  return caps.prompt_length <= 1 ? caps.sequence_length() - 1 : caps.prompt_length;
}

/// By how much the mean length of the simulated steps' largest packed micro-batch exceeds the mean of all.
double excess(const Job& job, double spread) {
  double most = 0;
  for (const Role& role : job.roles) {
    if (!role.packed) continue;
    for (const Pass pass : {Pass::train, Pass::forward}) {
      const MicroBatch& micro = pass == Pass::train ? role.train : role.forward;
      if (micro.tokens > 0 || (pass == Pass::train && !role.trained)) continue;  // a budget bounds the sum
      const MicroBatches batches = micro_batches(job, role, pass, job.batch.sequence_length());
      const std::int64_t together = batches.sequences * data_parallel_size(job, role);
      const double count = static_cast<double>(job.batch.sequences() * std::max(job.steps, 1)) /
                           static_cast<double>(std::max<std::int64_t>(1, together)) *
                           static_cast<double>(data_parallel_size(job, role));
      most = std::max(most, largest_of(count) * spread /
                                std::sqrt(static_cast<double>(std::max<std::int64_t>(1, batches.sequences))));
    }
  }
  return most;
}

}  // namespace

bool within_caps(const Lengths& lengths, const Batch& caps) {
  return lengths.mean_prompt <= static_cast<double>(longest_prompt(caps)) &&
         lengths.mean_response <= static_cast<double>(caps.response_length) &&
         lengths.mean_prompt + lengths.mean_response <= static_cast<double>(caps.sequence_length());
}

Job at_expected_lengths(const Job& job, const Lengths& lengths) {
  Job expected = job;
  double mean_prompt = lengths.mean_prompt, mean_response = lengths.mean_response;
  if (mean_response > 0) {
    // What the largest micro-batch has beyond the mean lies in its responses, beyond their cap in its prompts.
    mean_response += excess(job, lengths.spread);
    const double beyond = mean_response - static_cast<double>(job.batch.response_length);
    if (mean_prompt > 0) mean_prompt += std::max(0.0, beyond);
  }
  const auto tokens = [](double mean, std::int64_t cap) {
    return mean > 0 ? std::min(static_cast<std::int64_t>(std::ceil(mean)), cap) : cap;
  };
  expected.lengths = lengths;
  if (expected.lengths.max_total == 0) expected.lengths.max_total = job.batch.sequence_length();
  if (expected.lengths.max_response == 0) expected.lengths.max_response = job.batch.response_length;
  expected.batch.prompt_length = tokens(mean_prompt, longest_prompt(job.batch));
  expected.batch.response_length = tokens(mean_response, job.batch.response_length);
  return expected;
}

}  // namespace headroom::cli
