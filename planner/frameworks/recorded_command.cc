#include "planner/frameworks/recorded_command.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "planner/configuration/version.h"
#include "planner/frameworks/shell/launch.h"

namespace headroom {
namespace {

std::string text(const Document& document, const char* key) {
  const Document* value = document.find_path(key);
  return value != nullptr && value->is_scalar() ? value->text() : std::string();
}

const ProgramName* program_of(const Document& document, std::span<const ProgramName> programs) {
  const std::string name = text(document, "case.program");
  const auto found =
      std::find_if(programs.begin(), programs.end(), [&](const ProgramName& one) { return one.recorded == name; });
  return found == programs.end() ? nullptr : &*found;
}

shell::Launch launch_of(const JobInput::File& file, const ProgramName& program) {
  const shell::Place place{.file = file.path, .line = file.document.line()};
  const auto word = [&](std::string text) {
    return shell::Word{.text = std::move(text), .unknown = {}, .place = place};
  };
  shell::Launch out;
  out.runner = "deepspeed";
  out.program = program.started;
  const std::string ranks = text(file.document, "ranks");
  for (const char* option : {"--num_gpus", "--nproc_per_node"}) {
    out.runner_words.push_back(word(option));
    out.runner_words.push_back(word(ranks.empty() ? "1" : ranks));
  }
  for (const Document& one : file.document.find_path("case.words")->items()) out.words.push_back(word(one.text()));
  out.place = place;
  return out;
}

void complete(std::string& version, const Document& recording, const char* library) {
  const Document* said = recording.find(library);
  if (version.empty() && said != nullptr && said->is_scalar()) version = without_build_tag(*said).text();
}

void complete(JobOptions& options, const Document& recording) {
  const auto model = [&](const char* name, const char* key) {
    if (const Document* values = recording.find_path(key); values != nullptr && values->is_map())
      options.models.emplace(name, *values);
  };
  model("MODEL", "case.model");
  model("CRITIC", "case.critic");
  if (text(recording, "case.full_rows") == "true") options.overrides.push_back("headroom.full_rows=true");
  if (options.gpu.empty()) options.gpu = text(recording, "device");
  complete(options.versions.torch, recording, "torch");
  complete(options.versions.transformers, recording, "transformers");
  complete(options.versions.deepspeed, recording, "deepspeed");
}

}  // namespace

bool is_recorded_command(const Document& document, std::span<const ProgramName> programs) {
  const Document *words = document.find_path("case.words"), *model = document.find_path("case.model");
  return words != nullptr && words->is_list() && model != nullptr && model->is_map() &&
         program_of(document, programs) != nullptr;
}

bool has_recorded_command(const JobInput& input, std::span<const ProgramName> programs) {
  return std::any_of(input.files.begin(), input.files.end(), [&](const JobInput::File& file) {
    return is_recorded_command(file.document, programs);
  });
}

RecordedCommand recorded_command(const JobInput& input, const JobOptions& options,
                                 std::span<const ProgramName> programs) {
  RecordedCommand out{.input = input, .options = options};
  for (JobInput::File& file : out.input.files) {
    if (!is_recorded_command(file.document, programs)) continue;
    complete(out.options, file.document);
    file.launch = std::make_shared<const shell::Launch>(launch_of(file, *program_of(file.document, programs)));
    file.document = Document::scalar("");
  }
  return out;
}

}  // namespace headroom
