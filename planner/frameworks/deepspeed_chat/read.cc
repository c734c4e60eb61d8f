#include "planner/frameworks/deepspeed_chat/read.h"

#include <algorithm>
#include <array>

#include "planner/frameworks/case_file.h"
#include "planner/frameworks/deepspeed_chat/ppo.h"
#include "planner/frameworks/deepspeed_chat/settings.h"
#include "planner/frameworks/deepspeed_chat/supervised.h"
#include "planner/frameworks/recorded_command.h"

namespace headroom::deepspeed_chat {

namespace {

constexpr std::array kRecorded = {
    ProgramName{"step1", "training/step1_supervised_finetuning/main.py"},
    ProgramName{"step2", "training/step2_reward_model_finetuning/main.py"},
    ProgramName{"step2_dpo", "training/step2_dpo_finetuning/main.py"},
    ProgramName{"step3", "training/step3_rlhf_finetuning/main.py"},
};

}  // namespace

bool detect(const JobInput& input) {
  return has_recorded_command(input, kRecorded) || ppo::is_command(input) || supervised::is_command(input) || std::any_of(input.files.begin(), input.files.end(), [](const JobInput::File& file) {
    const Document& keys = cases::inner(file.document);
    const Document* actor = keys.find("actor");
    return actor != nullptr && actor->is_map() &&
           (keys.find("zero_stage") != nullptr || file.document.find("engines") != nullptr);
  });
}

Result<ReadJob> read(const JobInput& input, const JobOptions& options) {
  if (has_recorded_command(input, kRecorded)) {
    const RecordedCommand run = recorded_command(input, options, kRecorded);
    return read(run.input, run.options);
  }
  if (supervised::is_command(input)) return supervised::read(input, options);
  if (ppo::is_command(input)) return ppo::read(input, options);
  HEADROOM_ASSIGN(const Layers layers, cases::lay(input, options));
  Values values(layers, Values::Grammar::strict);
  HEADROOM_ASSIGN(const std::shared_ptr<Settings> settings, read_settings(values, options));
  Job job = make_job(*settings);
  if (options.steps) job.steps = *options.steps;
  note_skipped_steps(job);
  return cases::finish(std::move(job), input, options, layers, values, known_keys(), settings);
}

}  // namespace headroom::deepspeed_chat
