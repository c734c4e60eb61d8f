#include "planner/frameworks/torch/read.h"

#include <algorithm>

#include "planner/frameworks/case_file.h"
#include "planner/frameworks/torch/settings.h"

namespace headroom::torch {
namespace {

bool is_case(const Document& document) {
  const Document* actor = document.find("actor");
  return actor != nullptr && actor->is_map() && actor->find("model_type") != nullptr;
}

}  // namespace

bool detect(const JobInput& input) {
  return std::any_of(input.files.begin(), input.files.end(), [](const JobInput::File& file) {
    return is_case(cases::inner(file.document)) && file.document.find("args") == nullptr;
  });
}

Result<ReadJob> read(const JobInput& input, const JobOptions& options) {
  HEADROOM_ASSIGN(const Layers layers, cases::lay(input, options));
  Values values(layers, Values::Grammar::strict);
  HEADROOM_ASSIGN(const std::shared_ptr<Settings> settings, read_settings(values, options));
  Job job = make_job(*settings);
  if (options.steps) job.steps = *options.steps;
  return cases::finish(std::move(job), input, options, layers, values, known_keys(), settings);
}

}  // namespace headroom::torch
