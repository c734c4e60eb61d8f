#include "planner/frameworks/nemo_rl/recording.h"

#include <algorithm>
#include <string>
#include <utility>

#include "planner/configuration/version.h"
#include "planner/frameworks/nemo_rl/packing.h"

namespace headroom::nemo_rl {
namespace {

Document configuration_of(const Document& recording) {
  Document out = *recording.find_path("case.config");
  Document own = Document::map(recording.line());
  own.set("model_config", *recording.find_path("case.model"));
  if (const Document* device = recording.find("device"); device != nullptr && device->is_scalar())
    own.set("gpu", *device);
  Document versions = Document::map(recording.line());
  for (const char* library : {"torch", "transformers"})
    if (const Document* version = recording.find(library); version != nullptr && version->is_scalar())
      versions.set(library, without_build_tag(*version));
  if (const Document* release = recording.find_path("case.release"); release != nullptr)
    versions.set("nemo_rl", *release);
  own.set("versions", std::move(versions));
  out.set("headroom", std::move(own));
  return out;
}

}  // namespace

bool is_recording(const Document& document) {
  const Document *config = document.find_path("case.config"), *model = document.find_path("case.model");
  return config != nullptr && config->is_map() && model != nullptr && model->is_map() &&
         config->find_path("policy.dtensor_cfg") != nullptr;
}

bool has_recording(const JobInput& input) {
  return std::any_of(input.files.begin(), input.files.end(),
                     [](const JobInput::File& file) { return is_recording(file.document); });
}

JobInput without_recordings(const JobInput& input) {
  JobInput out = input;
  for (JobInput::File& file : out.files)
    if (is_recording(file.document)) file.document = configuration_of(file.document);
  return out;
}

std::vector<ListedBatches> recorded_batches(const JobInput& input, const Settings& s) {
  const Policy& p = s.policy;
  if (input.files.empty() || s.train_gpus() > 1 || (!p.packing.enabled && !p.dynamic.enabled)) return {};
  const Document* listed = input.files.front().document.find_path("case.lengths");
  if (listed == nullptr) return {};
  std::vector<std::int64_t> lengths;
  for (const Document& length : listed->items()) lengths.push_back(length.as_int().value_or(1));
  const auto rows = [&](std::int64_t packed, std::int64_t padded) {
    return p.packing.enabled ? packed_rows(lengths, packed) : dynamic_rows(lengths, padded, p.dynamic.round);
  };
  const auto scored = rows(p.packing.logprob_tokens, p.dynamic.logprob_tokens);
  const auto trained = rows(p.packing.train_tokens, p.dynamic.train_tokens);
  return {{.step = 0, .role = "actor", .training = false, .micro_batches = scored},
          {.step = 0, .role = "ref", .training = false, .micro_batches = scored},
          {.step = 0, .role = "actor", .training = true, .micro_batches = trained}};
}

}  // namespace headroom::nemo_rl
