#include "planner/frameworks/nemo_rl/recording.h"

#include <algorithm>
#include <string>
#include <utility>

#include "planner/configuration/version.h"

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

}  // namespace headroom::nemo_rl
