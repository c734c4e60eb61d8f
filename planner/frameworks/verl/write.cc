#include "planner/frameworks/verl/write.h"

#include <fmt/format.h>

#include <tuple>

#include "planner/configuration/override.h"
#include "planner/configuration/yaml_patch.h"
#include "planner/frameworks/shell/launch.h"
#include "planner/frameworks/verl/lay.h"
#include "planner/frameworks/verl/named.h"
#include "planner/frameworks/verl/read.h"
#include "planner/frameworks/verl/recording.h"
#include "planner/frameworks/verl/schema.h"
#include "planner/frameworks/verl/version.h"
#include "planner/frameworks/write_back.h"
#include "planner/frameworks/write_launch.h"

namespace headroom::verl {
namespace {

/// Headroom's own section is no key of verl's: Hydra refuses it without `+`, and verl never reads it.
bool own(std::string_view key) {
  return key.starts_with("headroom.");
}

Spelling spelling_for(const ReadJob& read) {
  const Releases release = release_bit(settings_of(read).version);
  return [release](const Setting& setting) {
    const bool known = (releases_with(setting.key) & release) != 0;
    return (known ? "" : "+") + setting.key + "=" + setting.value;
  };
}

/// The release that the run was read as, and libraries that are not its image's: found around the files, and
/// stated so that what is written stands alone.
std::vector<std::pair<std::string, std::string>> versions_of(const ReadJob& read) {
  const Version release = settings_of(read).version;
  Versions shipped;
  complete_versions(release, shipped);
  std::vector<std::pair<std::string, std::string>> out{{"verl", to_string(release)}};
  const Versions& run = read.job.versions;
  for (const auto& [name, version, usual] :
       {std::tuple{"vllm", &run.vllm, &shipped.vllm}, std::tuple{"sglang", &run.sglang, &shipped.sglang},
        std::tuple{"torch", &run.torch, &shipped.torch},
        std::tuple{"transformers", &run.transformers, &shipped.transformers}})
    if (!version->empty() && *version != *usual) out.emplace_back(name, *version);
  return out;
}

/// As a comment that release_hints.h reads again: Hydra refuses keys that verl does not have.
WriteHeader with_versions(WriteHeader header, const ReadJob& read) {
  std::string line = "For";
  for (const auto& [name, version] : versions_of(read)) line += " " + name + "==" + version;
  header.lines.push_back(line);
  return header;
}

/// Whether a file has what no release goes without, so that it is a whole configuration by itself.
bool is_whole(const Document& document) {
  for (const char* key : {"data.train_files", "data.train_batch_size", "actor_rollout_ref.actor.optim",
                          "actor_rollout_ref.rollout.name", "algorithm.gamma", "trainer.total_epochs"})
    if (document.find_path(key) == nullptr) return false;
  return true;
}

/// What one file of settings stands over: verl's own configuration, unless it says so or is whole.
std::vector<Setting> below(const ReadJob& read) {
  if (read.input.files.size() != 1) return {};
  const Document& document = read.input.files.front().document;
  if (!document.is_map() || document.find("defaults") != nullptr || is_whole(document) || is_recording(document))
    return {};
  return {{"hydra.searchpath", "[pkg://verl.trainer.config]"},
          {"defaults", fmt::format("[{}, _self_]", configuration_of("verl.trainer.main_ppo"))}};
}

std::string stem(std::string name) {
  if (name.ends_with(".yaml")) name.resize(name.size() - 5);
  return name;
}

/// The words of a launch as a configuration over what it started from.
Result<Document> document_of(const shell::Launch& launch) {
  Document out = Document::map();
  std::string name(configuration_of(launch.program));
  for (std::size_t i = 0; i < launch.words.size(); ++i) {
    const std::string& text = launch.words[i].text;
    if (text.starts_with("--config-name=")) name = stem(text.substr(14));
    if (text == "--config-name" && i + 1 < launch.words.size()) name = stem(launch.words[i + 1].text);
  }
  Document searched = Document::list();
  searched.append(Document::scalar("pkg://verl.trainer.config"));
  out.set_path("hydra.searchpath", std::move(searched));
  Document below = Document::list();
  below.append(Document::scalar(name));
  below.append(Document::scalar("_self_"));
  out.set("defaults", std::move(below));
  for (const shell::Word& word : launch.words) {
    if (word.text.starts_with('-') || word.text.empty()) continue;
    if (!word.known()) continue;  // what nobody knows stays with verl's default, and decides no memory
    HEADROOM_ASSIGN(const Override change, parse_override(word.text, word.place.file, word.place.line));
    if (change.kind != Override::Kind::remove)
      HEADROOM_TRY(set_node(out, change.key, as_written(change.value)));
  }
  return out;
}

}  // namespace

Result<std::string> write_yaml_file(const ReadJob& read, std::span<const Setting> settings,
                                    const WriteHeader& header) {
  std::vector<Setting> wanted(settings.begin(), settings.end());
  for (const auto& [name, version] : versions_of(read)) wanted.push_back({"headroom.versions." + name, version});
  bool launched = false;
  for (const JobInput::File& file : read.input.files) launched = launched || file.launch != nullptr;
  for (Setting& setting : below(read)) wanted.push_back(std::move(setting));
  if (!launched) return write_back(read, wanted, header);
  ReadJob plain = read;
  for (JobInput::File& file : plain.input.files) {
    if (file.launch == nullptr) continue;
    HEADROOM_ASSIGN(file.document, document_of(*file.launch));
    file.text = write_yaml(file.document);
    HEADROOM_ASSIGN(file.document, parse_document(file.text, file.path));
    file.launch = nullptr;
  }
  return write_back(plain, wanted, header);
}

Result<std::string> write_launch_script(const ReadJob& read, std::span<const Setting> settings,
                                        const WriteHeader& header) {
  ReadJob launch = read;
  std::erase_if(launch.overrides, [](const std::string& text) { return text.starts_with("++headroom."); });
  return write_script(launch, settings, with_versions(header, read), spelling_for(read));
}

Result<std::string> write_override_list(const ReadJob& read, std::span<const Setting> settings,
                                        const WriteHeader& header) {
  std::vector<Setting> wanted;
  for (const Setting& setting : settings)
    if (!own(setting.key)) wanted.push_back(setting);
  return write_overrides(wanted, with_versions(header, read), spelling_for(read));
}

}  // namespace headroom::verl
