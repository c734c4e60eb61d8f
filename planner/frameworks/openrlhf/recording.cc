#include "planner/frameworks/openrlhf/recording.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "planner/configuration/version.h"
#include "planner/frameworks/shell/launch.h"

namespace headroom::openrlhf {
namespace {

const Document* first_recording(const JobInput& input) {
  const auto found = std::find_if(input.files.begin(), input.files.end(),
                                  [](const JobInput::File& file) { return is_recording(file.document); });
  return found == input.files.end() ? nullptr : &found->document;
}

shell::Launch command_of(const JobInput::File& file) {
  shell::Launch out;
  out.runner = "python";
  out.program = "openrlhf.cli." + file.document.find_path("case.program")->text();
  out.module = true;
  for (const Document& word : file.document.find_path("case.words")->items())
    out.words.push_back({.text = word.text(), .unknown = {}, .place = {.file = file.path, .line = word.line()}});
  const Document* ranks = file.document.find("ranks");
  for (const std::string& word : {std::string("--num_gpus"), ranks == nullptr ? std::string("1") : ranks->text()})
    out.runner_words.push_back(
        {.text = word, .unknown = {}, .place = {.file = file.path, .line = file.document.line()}});
  out.place = {.file = file.path, .line = file.document.line()};
  return out;
}

}  // namespace

bool is_recording(const Document& document) {
  const Document *program = document.find_path("case.program"), *words = document.find_path("case.words"),
                 *model = document.find_path("case.model");
  return program != nullptr && program->is_scalar() && program->text().starts_with("train_") && words != nullptr &&
         words->is_list() && model != nullptr && model->is_map();
}

bool has_recording(const JobInput& input) {
  return first_recording(input) != nullptr;
}

JobInput without_recordings(const JobInput& input) {
  JobInput out = input;
  for (JobInput::File& file : out.files) {
    if (!is_recording(file.document)) continue;
    file.launch = std::make_shared<const shell::Launch>(command_of(file));
    file.document = Document::scalar("");
  }
  return out;
}

Document recorded_model(const JobInput& input) {
  const Document* found = first_recording(input);
  return found == nullptr ? Document() : *found->find_path("case.model");
}

void complete_recorded_versions(const JobInput& input, Versions& versions) {
  const Document* found = first_recording(input);
  if (found == nullptr) return;
  const auto complete = [&](const char* library, std::string& version) {
    if (const Document* said = found->find(library); version.empty() && said != nullptr && said->is_scalar())
      version = without_build_tag(*said).text();
  };
  complete("torch", versions.torch);
  complete("transformers", versions.transformers);
  complete("deepspeed", versions.deepspeed);
}

std::string recorded_device(const JobInput& input) {
  const Document* found = first_recording(input);
  const Document* device = found == nullptr ? nullptr : found->find("device");
  return device != nullptr && device->is_scalar() ? device->text() : std::string();
}

}  // namespace headroom::openrlhf
