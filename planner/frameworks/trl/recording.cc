#include "planner/frameworks/trl/recording.h"

#include <algorithm>
#include <string>
#include <utility>

#include "planner/configuration/version.h"
#include "planner/frameworks/trl/input.h"

namespace headroom::trl {
namespace {

Status set_words(const JobInput::File& file, const Document& words, Document& out) {
  const auto& items = words.items();
  for (std::size_t i = 0; i < items.size(); i += 2) {
    const std::string& flag = items[i].text();
    if (!flag.starts_with("--") || i + 1 == items.size())
      return fail(Error{.message = "expected --flag and its value in turn, found \"" + flag.substr(0, 60) + "\"",
                        .file = file.path,
                        .line = items[i].line(),
                        .key = "case.words"});
    out.set(flag.substr(2), items[i + 1]);
  }
  return {};
}

}  // namespace

bool is_recording(const Document& document) {
  const Document *words = document.find_path("case.words"), *model = document.find_path("case.model"),
                 *trainer = document.find_path("case.trainer");
  return words != nullptr && words->is_list() && model != nullptr && model->is_map() && trainer != nullptr &&
         trainer_of(trainer->text()).has_value();
}

Result<Document> trainer_file(const JobInput::File& recording) {
  const Document& record = recording.document;
  const auto text = [&](const char* value) { return Document::scalar(value, record.line(), true); };
  Document out = Document::map(record.line());
  const std::string trainer = record.find_path("case.trainer")->text();
  for (const char* key : {"model_name_or_path", "sft_model_path", "reward_model_path"})
    if (trainer == "ppo" || key == std::string_view("model_name_or_path")) out.set(key, text("recorded"));
  out.set("save_strategy", text("no"));
  HEADROOM_TRY(set_words(recording, *record.find_path("case.words"), out));
  Document own = Document::map(record.line());
  own.set("trainer", text(trainer.c_str()));
  own.set("gpus", text("1"));
  own.set("model_config", *record.find_path("case.model"));
  if (const Document* prompt = record.find_path("case.prompt");
      prompt != nullptr && (trainer == "grpo" || trainer == "ppo" || trainer == "rloo"))
    own.set("prompt_length", *prompt);
  if (const Document* device = record.find("device"); device != nullptr && device->is_scalar())
    own.set("gpu", *device);
  Document versions = Document::map(record.line());
  for (const char* library : {"trl", "torch", "transformers"})
    if (const Document* version = record.find_path(std::string("versions.") + library);
        version != nullptr && version->is_scalar())
      versions.set(library, without_build_tag(*version));
  own.set("versions", std::move(versions));
  out.set("headroom", std::move(own));
  return out;
}

std::optional<int> recorded_steps(const JobInput& input) {
  constexpr std::int64_t kMost = 1000;
  for (const JobInput::File& file : input.files) {
    if (!is_recording(file.document)) continue;
    const auto& words = file.document.find_path("case.words")->items();
    for (std::size_t i = 0; i + 1 < words.size(); i += 2)
      if (words[i].text() == "--max_steps")
        // JSON quotes what the command line does not.
        if (const auto steps = Document::scalar(words[i + 1].text()).as_int(); steps && *steps > 0)
          return static_cast<int>(std::min(*steps, kMost));
  }
  return std::nullopt;
}

bool has_recording(const JobInput& input) {
  return std::any_of(input.files.begin(), input.files.end(),
                     [](const JobInput::File& file) { return is_recording(file.document); });
}

Result<JobInput> without_recordings(const JobInput& input) {
  JobInput out = input;
  for (JobInput::File& file : out.files) {
    if (!is_recording(file.document)) continue;
    HEADROOM_ASSIGN(file.document, trainer_file(file));
  }
  return out;
}

}  // namespace headroom::trl
