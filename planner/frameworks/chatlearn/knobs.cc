#include "planner/frameworks/settings/knobs.h"

#include <fmt/format.h>

#include "planner/frameworks/chatlearn/job.h"
#include "planner/frameworks/chatlearn/read.h"
#include "planner/frameworks/chatlearn/rlhf/settings.h"
#include "planner/frameworks/write_back.h"
#include "planner/frameworks/write_named.h"

namespace headroom::chatlearn {
namespace {

using settings::shown;
using Keys = std::vector<Setting>;
using Row = settings::KnobRow<Settings>;

const std::string kTrainer = "models.policy_trainer.", kReference = "models.ref_policy.",
                  kPolicy = "models.policy.";

std::int64_t share(const Settings& s) {
  const Model& t = s.trainer;
  return std::max<std::int64_t>(
      1, s.global_batch * (s.megatron ? t.tensor * t.pipeline * t.context : t.ulysses) / t.gpus);
}
bool always(const Settings&) {
  return true;
}
bool megatron(const Settings& s) {
  return s.megatron;
}

// clang-format off
const Row kRows[] = {
    {"policy_trainer_offload", "the trainer's weights are on the host while others work", false, [](const Settings& s) { return s.colocated("policy_trainer"); },
     [](const Settings& s) { return shown(s.trainer.free.weights); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{kTrainer + "free_gpu_memory.offload_weights", v}}; }},
    {"optimizer_offload", "optimizer states are on the host while others work", false, [](const Settings& s) { return s.colocated("policy_trainer"); },
     [](const Settings& s) { return shown(s.trainer.free.optimizer); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{kTrainer + "free_gpu_memory.offload_optimizer_states", v}}; }},
    {"free_grad_buffers", "gradient buffers exist in updates only", false, [](const Settings& s) { return s.megatron && s.colocated("policy_trainer"); },
     [](const Settings& s) { return shown(s.trainer.free.gradients); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{kTrainer + "free_gpu_memory.free_grad_buffers", v}}; }},
    {"reference_offload", "the reference's weights are on the host while others work", false, [](const Settings& s) { return s.colocated("ref_policy"); },
     [](const Settings& s) { return shown(s.reference.free.weights); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{kReference + "free_gpu_memory.offload_weights", v}}; }},
    {"engine_sleep", "the engine gives its memory back while models train", false, [](const Settings& s) { return s.colocated("policy"); },
     [](const Settings& s) { return shown(s.policy.free.weights); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{kPolicy + "free_gpu_memory.offload_weights", v}}; }},
    {"micro_batch", "sequences a GPU trains on at once", false, [](const Settings& s) { return !s.trainer.packing; },
     [](const Settings& s) { return shown(s.micro_batch); }, [](const Settings& s) { return settings::texts(settings::divisors(share(s))); },
     [](const Settings&, const std::string& v) { return Keys{{"runtime_args.train_micro_batch_size", v}}; }, {{.activities = kTraining, .frugal = End::first}}},
    {"token_budget", "tokens a GPU trains on at once", false, [](const Settings& s) { return s.trainer.packing; },
     [](const Settings& s) { return shown(s.trainer.packed_tokens); },
     [](const Settings& s) {
       std::vector<std::int64_t> out{s.trainer.packed_tokens};
       for (const std::int64_t n : settings::doublings(1, 16)) out.push_back(n * (s.policy.prompt_length + s.policy.response_length));
       return settings::texts(std::move(out));
     },
     [](const Settings&, const std::string& v) { return Keys{{kTrainer + "max_token_in_packing", v}, {kReference + "max_token_in_packing", v}}; }, settings::pass_size()},
    {"recompute", "layers are recomputed in the backward", false, megatron,
     [](const Settings& s) { return s.trainer.granularity.empty() ? std::string("null") : s.trainer.granularity; },
     [](const Settings&) { return std::vector<std::string>{"null", "full"}; },
     [](const Settings&, const std::string& v) { return Keys{{kTrainer + "recompute_granularity", v}, {kTrainer + "recompute_method", v == "full" ? "uniform" : "null"}, {kTrainer + "recompute_num_layers", v == "full" ? "1" : "null"}}; }, settings::recomputation()},
    {"distributed_optimizer", "optimizer states are spread over data-parallel GPUs", false, megatron,
     [](const Settings& s) { return shown(s.trainer.distributed); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{kTrainer + "use_distributed_optimizer", v}}; }},
    {"gpu_memory_utilization", "share of the GPU that the engine may take", false, always,
     [](const Settings& s) { return shown(s.policy.utilization); }, [](const Settings& s) { return settings::fractions(s.policy.utilization); },
     [](const Settings&, const std::string& v) { return Keys{{kPolicy + "gpu_memory_utilization", v}}; }, settings::engine_share(false)},
    {"enforce_eager", "no CUDA graphs", false, always,
     [](const Settings& s) { return shown(s.policy.enforce_eager); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{kPolicy + "enforce_eager", v}}; }, settings::engine_eager()},
};
// clang-format on

const settings::KnobTable<Settings> kTable{"ChatLearn", kRows, assign, make_job};

}  // namespace

std::vector<Knob> knobs(const ReadJob& read) {
  return rlhf::is_run(read) ? rlhf::knobs(read) : kTable.knobs(read);
}
Result<Job> with(const ReadJob& read, std::span<const Choice> choices) {
  return rlhf::is_run(read) ? rlhf::with(read, choices) : kTable.with(read, choices);
}
Result<std::vector<Setting>> settings_for(const ReadJob& read, std::span<const Choice> choices) {
  return rlhf::is_run(read) ? rlhf::settings_for(read, choices) : kTable.settings_of(read, choices);
}
Result<std::string> write(const ReadJob& read, std::span<const Setting> settings, const WriteHeader& header) {
  return rlhf::is_run(read) ? rlhf::write(read, settings, header) : write_back(read, settings, header);
}
Result<std::string> write_script(const ReadJob& read, std::span<const Setting> settings, const WriteHeader& header) {
  if (rlhf::is_run(read)) return fail("ChatLearn's RLHF runs are written as files and exports: --yaml, --overrides");
  return write_named_script(read, settings, header);
}

Result<std::string> write_overrides(const ReadJob& read, std::span<const Setting> settings, const WriteHeader& header) {
  if (!rlhf::is_run(read)) return write_named_overrides(read, settings, header);
  return rlhf::write_exports(read, settings, header);
}

}  // namespace headroom::chatlearn
