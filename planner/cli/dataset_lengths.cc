#include "planner/cli/dataset_lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "models/base/embedded.h"
#include "models/document/document.h"
#include "planner/cli/lengths.h"
#include "planner/frameworks/shell/launch.h"

namespace headroom {
std::span<const EmbeddedFile> embedded_lengths();
}

namespace headroom::cli {
namespace {

/// Last parts of the keys that name it, over all frameworks.
constexpr std::array<std::string_view, 5> kKeys = {"train_files", "prompt_data", "dataset_name", "prompt_dataset",
                                                   "train_data_path"};
/// What a path says beside its dataset's name.
constexpr std::array<std::string_view, 8> kPlain = {"train", "training", "test", "rl", "data", "main", "default", ""};
constexpr double kLeastAnswering = 1e9;  // parameters: smaller models ramble to their cap (public logs of 0.5B)

std::string small(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool names_data(std::string_view key) {
  const std::size_t dot = key.find_last_of(".-");
  const std::string_view last = dot == std::string_view::npos ? key : key.substr(dot + 1);
  return std::find(kKeys.begin(), kKeys.end(), last) != kKeys.end();
}

/// The value as written: a configuration's, else the launch's word with its unknown stretches.
std::string written(const ReadJob& read) {
  std::string out;
  for (const KeyUse& use : read.keys)
    if (names_data(use.key) && use.value.size() > 2) out = use.value;  // '' is a value that is not known
  if (!out.empty()) return out;
  for (const JobInput::File& file : read.input.files) {
    if (!file.launch) continue;
    const std::vector<shell::Word>& words = file.launch->words;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string& text = words[i].text;
      const std::size_t equals = text.find('=');
      if (names_data(text.substr(0, equals)))
        out = equals != std::string::npos ? text.substr(equals + 1) : i + 1 < words.size() ? words[i + 1].text : "";
    }
  }
  return out;
}

/// `/data/gsm8k/train.parquet` → gsm8k.
std::string dataset_of(const std::string& path) {
  const std::filesystem::path whole = small(path);
  const bool file = whole.has_extension() && std::string_view(".parquet.jsonl.json").find(whole.extension().string()) !=
                                                 std::string_view::npos;
  std::filesystem::path rest = file ? whole.parent_path() / whole.stem() : whole;
  while (rest.has_relative_path()) {
    const std::string name = rest.filename().string();
    if (std::find(kPlain.begin(), kPlain.end(), name) == kPlain.end()) return name;
    rest = rest.parent_path();
  }
  return "";
}

const Role* actor_of(const ReadJob& read) {
  const Role* actor = nullptr;
  for (const Role& role : read.job.roles)
    if (role.trained && (actor == nullptr || role.name == "actor")) actor = &role;
  return actor;
}

/// Whether a model's answers are like those that were measured: it chats, and does not think first.
bool answers_plainly(const std::string& model) {
  const auto has = [&](std::string_view part) { return model.find(part) != std::string::npos; };
  const bool chats = has("instruct") || has("chat") || has("-it");
  return chats && !has("think") && !has("reason") && !has("-r1") && !has("qwq");
}

struct Known {
  double rows = 0, prompt = 0, response = 0, spread = 0, prompt_max = 0;
  std::string source;
};

/// What is known of `dataset` with `model` (its name in small letters), or with those that most files are about.
std::optional<Known> known_of(const std::string& dataset, const std::string& model, bool large) {
  for (const EmbeddedFile& data : embedded_lengths()) {
    if (std::filesystem::path(data.path).stem() != dataset) continue;
    const Result<Document> file = parse_document(data.text, std::string(data.path));
    if (!file) return std::nullopt;
    const auto number = [](const Document& map, const char* key, double fallback = 0) {
      const Document* found = map.find(key);
      return found == nullptr ? fallback : found->as_double().value_or(fallback);
    };
    const Document* source = file->find("source");
    Known out{number(*file, "rows"),   number(*file, "prompt"),     large ? number(*file, "response") : 0,
              number(*file, "spread"), number(*file, "prompt_max"), source == nullptr ? "" : source->text()};
    if (const Document* models = file->find("models"))
      for (const Document& one : models->items()) {
        const Document* name = one.find("name");
        if (name == nullptr || model.find(name->text()) == std::string::npos) continue;
        out.prompt = number(one, "prompt", out.prompt);
        out.response = number(one, "response", out.response);
      }
    return out;
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> training_data(const ReadJob& read) {
  std::vector<std::string> out;
  std::string path;
  for (const char c : written(read) + ",") {
    if (std::string_view(",[]'\" ").find(c) == std::string_view::npos) {
      path += c;
    } else if (!path.empty()) {
      const std::string dataset = dataset_of(path);
      if (std::find(out.begin(), out.end(), dataset) == out.end()) out.push_back(dataset);
      path.clear();
    }
  }
  return out;
}

std::optional<Lengths> lengths_of_data(const ReadJob& read) {
  const Batch& caps = read.job.batch;
  Lengths out;
  double rows = 0, longest = 0;
  bool longest_known = true;
  const Role* actor = actor_of(read);
  if (actor == nullptr || !actor->model) return std::nullopt;
  const std::string model = small(actor->model_name);
  const bool large = static_cast<double>(actor->model->parameters()) >= kLeastAnswering;
  bool answers = answers_plainly(model);
  const std::vector<std::string> datasets = training_data(read);
  for (const std::string& dataset : datasets) {
    const std::optional<Known> known = known_of(dataset, model, large);
    if (!known) return std::nullopt;
    answers = answers && known->response > 0;
    rows += known->rows;
    out.mean_prompt += known->rows * known->prompt;
    out.mean_response += known->rows * known->response;
    out.spread = std::max(out.spread, known->spread);
    longest = std::max(longest, known->prompt_max);
    longest_known = longest_known && known->prompt_max > 0;
    out.source += (out.source.empty() ? "" : "; ") + fmt::format("{}: {}", dataset, known->source);
  }
  if (rows <= 0) return std::nullopt;
  out.mean_prompt /= rows;
  out.mean_response = answers ? out.mean_response / rows : 0;
  if (out.mean_prompt > static_cast<double>(caps.prompt_length) ||
      out.mean_response > static_cast<double>(caps.response_length))
    return std::nullopt;
  if (longest_known)
    out.max_total = std::min(static_cast<std::int64_t>(longest), caps.prompt_length) + caps.response_length;
  return out;
}

}  // namespace headroom::cli
