#include "planner/frameworks/verl/recording.h"

#include <array>
#include <string>
#include <utility>

#include "planner/configuration/listed_batches.h"
#include "planner/configuration/override.h"
#include "planner/configuration/version.h"

namespace headroom::verl {
namespace {

const std::string kEnvironment = "ray_kwargs.ray_init.runtime_env.env_vars.";

Status set(Layers& layers, const std::string& file, std::string key, Document value) {
  const int line = value.line();
  return layers.apply({.kind = Override::Kind::force,
                       .key = std::move(key),
                       .value = std::move(value),
                       .file = file,
                       .line = line});
}

}  // namespace

bool is_recording(const Document& document) {
  const Document *overrides = document.find("overrides"), *config = document.find("model_config");
  return overrides != nullptr && overrides->is_list() && config != nullptr && config->is_map();
}

Status lay_recording(const JobInput::File& file, Layers& layers) {
  const Document& recording = file.document;
  for (const Document& text : recording.find("overrides")->items()) {
    HEADROOM_ASSIGN(Override change, parse_override(text.text(), file.path, text.line()));
    HEADROOM_TRY(layers.apply(change));
  }
  HEADROOM_TRY(set(layers, file.path, "headroom.model_config", *recording.find("model_config")));
  if (const Document* device = recording.find("device"); device != nullptr && !layers.given("headroom.gpu"))
    HEADROOM_TRY(set(layers, file.path, "headroom.gpu", *device));
  if (const Document* verl = recording.find("verl_version"); verl != nullptr && verl->is_scalar())
    HEADROOM_TRY(set(layers, file.path, "headroom.versions.verl", without_build_tag(*verl)));
  if (const Document* nccl = recording.find("nccl"); nccl != nullptr && nccl->is_scalar())
    HEADROOM_TRY(set(layers, file.path, "headroom.versions.nccl", without_build_tag(*nccl)));
  for (const char* library : {"torch", "transformers", "vllm", "sglang"}) {
    const Document* version = recording.find_path(std::string("versions.") + library);
    if (version != nullptr && version->is_scalar())
      HEADROOM_TRY(set(layers, file.path, std::string("headroom.versions.") + library, without_build_tag(*version)));
  }
  if (const Document* conf = recording.find("alloc_conf"); conf != nullptr && !conf->text().empty())
    HEADROOM_TRY(set(layers, file.path, kEnvironment + "PYTORCH_CUDA_ALLOC_CONF", *conf));
  // A machine without flash-attn runs as with its cross entropy switched off.
  const Document* flash = recording.find_path("case.flash");
  if (flash != nullptr && flash->as_bool() == false)
    HEADROOM_TRY(
        set(layers, file.path, kEnvironment + "VERL_DISABLE_FLASH_ATTN_CE", Document::scalar("1", 0, true)));
  return {};
}

Status take_run(const JobInput& input, Job& job) {
  for (const JobInput::File& file : input.files) {
    if (!is_recording(file.document)) continue;
    const Document* rank = file.document.find("rank");
    if (rank != nullptr) job.rank = rank->as_int().value_or(0);
    if (!lists_batches(file.document)) continue;
    HEADROOM_ASSIGN(job.lengths.listed, listed_batches(file.document, job, file.path));
  }
  return {};
}

}  // namespace headroom::verl
