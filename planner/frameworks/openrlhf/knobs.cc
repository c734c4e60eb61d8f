#include "planner/frameworks/settings/knobs.h"

#include <fmt/format.h>

#include "planner/frameworks/openrlhf/job.h"
#include "planner/frameworks/openrlhf/read.h"

namespace headroom::openrlhf {
namespace {

using settings::shown;
using Keys = std::vector<Setting>;
using Texts = std::vector<std::string>;
using Row = settings::KnobRow<Settings>;

std::int64_t share(const Settings& s) {
  return std::max<std::int64_t>(1, s.train_batch * s.ring * s.tensor / s.actor.size());
}

Texts budgets(const Settings& s, std::int64_t current) {
  std::vector<std::int64_t> out{current};
  for (const std::int64_t n : settings::doublings(1, 32)) out.push_back(n * s.sequence_length());
  return settings::texts(std::move(out));
}

bool always(const Settings&) {
  return true;
}
bool rl(const Settings& s) {
  return s.rl();
}

// clang-format off
const Row kRows[] = {
    {"zero_stage", "what DeepSpeed spreads over the GPUs: 1 optimizer states, 2 gradients, 3 weights", false, always,
     [](const Settings& s) { return shown(s.stage); }, [](const Settings& s) { Texts out{"1", "2", "3"}; if (s.stage == 0) out.insert(out.begin(), "0"); return out; },
     [](const Settings& s, const std::string& v) { return Keys{{flag(s, "ds.zero_stage"), v}}; }},
    {"adam_offload", "the optimizer lives on the host", false, always,
     [](const Settings& s) { return shown(s.adam_offload); }, [](const Settings&) { return settings::flags(); },
     [](const Settings& s, const std::string& v) { return Keys{{flag(s, "ds.adam_offload"), v}}; }},
    {"deepspeed_sleep", "optimizer states are on the host between updates", false, [](const Settings& s) { return s.rl() && s.since(0, 6, 2); },
     [](const Settings& s) { return shown(s.sleep); }, [](const Settings&) { return settings::flags(); },
     [](const Settings& s, const std::string& v) { return Keys{{flag(s, "ds.enable_sleep"), v}}; }},
    {"engine_sleep", "the engine gives its memory back while models train", false, [](const Settings& s) { return s.generates() && s.shares_engine(); },
     [](const Settings& s) { return shown(s.engine_sleep); }, [](const Settings&) { return settings::flags(); },
     [](const Settings& s, const std::string& v) { return Keys{{flag(s, "vllm.enable_sleep"), v}}; }},
    {"gradient_checkpointing", "layers are recomputed in the backward", false, always,
     [](const Settings& s) { return shown(s.checkpointing); }, [](const Settings&) { return settings::flags(); },
     [](const Settings& s, const std::string& v) { return Keys{{flag(s, s.rl() ? "actor.gradient_checkpointing_enable" : "model.gradient_checkpointing_enable"), v}}; }, settings::recomputation()},
    {"packing", "packed sequences instead of padded ones", false, [](const Settings& s) { return !s.dynamic && s.ring == 1; },
     [](const Settings& s) { return shown(s.packing); }, [](const Settings&) { return settings::flags(); },
     [](const Settings& s, const std::string& v) { return Keys{{flag(s, "ds.packing_samples"), v}}; }, settings::passes()},
    {"micro_batch", "sequences a GPU trains on at once", false, [](const Settings& s) { return !s.dynamic; },
     [](const Settings& s) { return shown(s.micro_train); }, [](const Settings& s) { return settings::texts(settings::divisors(share(s))); },
     [](const Settings& s, const std::string& v) { return Keys{{flag(s, "train.micro_batch_size"), v}}; }, settings::training_size()},
    {"log_prob_micro_batch", "sequences a GPU scores at once", false, [](const Settings& s) { return s.rl() && !s.dynamic; },
     [](const Settings& s) { return shown(s.micro_rollout); },
     [](const Settings& s) { std::vector<std::int64_t> out = settings::doublings(1, 32); out.push_back(s.micro_rollout); return settings::texts(std::move(out)); },
     [](const Settings& s, const std::string& v) { return Keys{{flag(s, "rollout.micro_batch_size"), v}}; }, settings::scoring_size()},
    {"token_budget", "tokens a GPU trains on at once", false, [](const Settings& s) { return s.rl() && s.dynamic; },
     [](const Settings& s) { return shown(s.train_tokens); }, [](const Settings& s) { return budgets(s, s.train_tokens); },
     [](const Settings& s, const std::string& v) {
       Keys out{{flag(s, "train.max_tokens_per_gpu"), v}};
       // Scoring's budget follows where it is not given: a knob changes what it says and nothing else.
       if (!s.rollout_tokens) out.push_back({flag(s, "rollout.max_tokens_per_gpu"), shown(s.train_tokens)});
       return out;
     }, settings::training_size()},
    {"log_prob_token_budget", "tokens a GPU scores at once", false, [](const Settings& s) { return s.rl() && s.dynamic; },
     [](const Settings& s) { return shown(s.rollout_tokens.value_or(s.train_tokens)); }, [](const Settings& s) { return budgets(s, s.rollout_tokens.value_or(s.train_tokens)); },
     [](const Settings& s, const std::string& v) { return Keys{{flag(s, "rollout.max_tokens_per_gpu"), v}}; }, settings::scoring_size()},
    {"ref_offload", "the reference's weights are on the host", false, [](const Settings& s) { return s.has_reference() && s.stage == 3; },
     [](const Settings& s) { return shown(s.ref_offload); }, [](const Settings&) { return settings::flags(); },
     [](const Settings& s, const std::string& v) { return Keys{{s.rl() && s.release < kDotted ? "ref_reward_offload" : flag(s, "ref.offload"), v}}; }},
    {"gpu_memory_utilization", "share of the GPU that the engine may take", false, [](const Settings& s) { return s.generates(); },
     [](const Settings& s) { return shown(s.utilization); }, [](const Settings& s) { return settings::fractions(s.utilization); },
     [](const Settings& s, const std::string& v) { return Keys{{flag(s, "vllm.gpu_memory_utilization"), v}}; }, settings::engine_share(false)},
    {"enforce_eager", "no CUDA graphs", false, [](const Settings& s) { return s.generates(); },
     [](const Settings& s) { return shown(s.enforce_eager); }, [](const Settings&) { return settings::flags(); },
     [](const Settings& s, const std::string& v) { return Keys{{flag(s, "vllm.enforce_eager"), v}}; }, settings::engine_eager()},
    {"rollout_tensor_parallel", "GPUs that share one engine", false, [](const Settings& s) { return s.generates() && s.model != nullptr; },
     [](const Settings& s) { return shown(s.engine_tensor); },
     [](const Settings& s) {
       std::vector<std::int64_t> out{s.engine_tensor};
       const std::int64_t gpus = *s.engines * s.engine_tensor;
       for (const std::int64_t d : settings::divisors(std::min<std::int64_t>(gpus, 8))) {
         bool divides = gpus % d == 0;
         for (const LayerGroup& group : s.model->decoder.groups) {
           const Attention& a = group.layer.attention;
           divides = divides && a.heads % d == 0 && (a.kv_heads % d == 0 || d % a.kv_heads == 0);
         }
         if (divides) out.push_back(d);
       }
       return settings::texts(std::move(out));
     },
     [](const Settings& s, const std::string& v) {
       const std::int64_t size = Document::scalar(v).as_int().value_or(1);
       return Keys{{flag(s, "vllm.tensor_parallel_size"), v}, {flag(s, "vllm.num_engines"), shown(std::max<std::int64_t>(1, *s.engines * s.engine_tensor / std::max<std::int64_t>(1, size)))}};
     }, settings::engine_ranks()},
    {"kl_penalty", "a reference's log-probs keep the policy near", true, rl,
     [](const Settings& s) { return shown(s.kl_coefficient > 0); }, [](const Settings&) { return settings::flags(); },
     [](const Settings& s, const std::string& v) { return Keys{{flag(s, "algo.kl.init_coef"), v == "true" ? shown(s.kl_coefficient > 0 ? s.kl_coefficient : 0.01) : "0"}}; }},
};
// clang-format on

const settings::KnobTable<Settings> kTable{"OpenRLHF", kRows, assign, make_job};

}  // namespace

std::vector<Knob> knobs(const ReadJob& read) {
  return kTable.knobs(read);
}
Result<Job> with(const ReadJob& read, std::span<const Choice> choices) {
  return kTable.with(read, choices);
}
Result<std::vector<Setting>> settings_for(const ReadJob& read, std::span<const Choice> choices) {
  return kTable.settings_of(read, choices);
}

}  // namespace headroom::openrlhf
