#include "planner/frameworks/trl/read.h"

#include <algorithm>

#include "planner/frameworks/case_file.h"
#include "planner/frameworks/trl/settings.h"

namespace headroom::trl {

bool detect(const JobInput& input) {
  return std::any_of(input.files.begin(), input.files.end(), [](const JobInput::File& file) {
    const Document& keys = cases::inner(file.document);
    const Document *model = keys.find("model"), *trainer = keys.find("trainer");
    // `trainer` is a section of verl's, a word here; GRPO is the default.
    return (trainer != nullptr && trainer->is_scalar()) ||
           (model != nullptr && model->is_map() && model->find("model_type") != nullptr &&
            keys.find("prompt") != nullptr);
  });
}

Result<ReadJob> read(const JobInput& input, const JobOptions& options) {
  HEADROOM_ASSIGN(const Layers layers, cases::lay(input, options));
  Values values(layers, Values::Grammar::strict);
  HEADROOM_ASSIGN(const std::shared_ptr<Settings> settings, read_settings(values, options));
  Job job = settings->trainer == Trainer::ppo ? make_ppo_job(*settings) : make_grpo_job(*settings);
  return cases::finish(std::move(job), input, options, layers, values, known_keys(), settings);
}

}  // namespace headroom::trl
