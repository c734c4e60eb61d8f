#include "planner/frameworks/settings/knobs.h"

#include "planner/frameworks/colossalchat/job.h"
#include "planner/frameworks/colossalchat/read.h"

namespace headroom::colossalchat {
namespace {

using settings::shown;
using Keys = std::vector<Setting>;
using Texts = std::vector<std::string>;
using Row = settings::KnobRow<Settings>;

bool boosted(const Settings& s) {
  return !s.coati();
}

Texts strategies(const Settings& s) {
  if (s.program == Program::benchmark)
    return {"ddp", "colossalai_gemini", "colossalai_gemini_cpu", "colossalai_zero1", "colossalai_zero1_cpu",
            "colossalai_zero2", "colossalai_zero2_cpu"};
  Texts out{"ddp", "colossalai_gemini", "colossalai_zero2"};
  if (s.program == Program::sft) out.emplace_back("colossalai_zero2_cpu");
  return out;
}

/// A train batch and its accumulation whose product stays.
Texts train_batches(const Settings& s) {
  std::vector<std::int64_t> out;
  for (const std::int64_t n : settings::divisors(s.train_batch * s.accumulation))
    if (!s.rl() || n <= s.buffer()) out.push_back(n);
  out.push_back(s.train_batch);
  return settings::texts(std::move(out));
}

// clang-format off
const Row kRows[] = {
    {"strategy", "how weights, gradients and optimizer states are spread", false, [](const Settings& s) { return s.coati(); },
     [](const Settings& s) { return s.strategy; }, strategies,
     [](const Settings&, const std::string& v) { return Keys{{"strategy", v}}; }},
    {"plugin", "how weights, gradients and optimizer states are spread", false, [](const Settings& s) { return boosted(s) && s.lora_rank == 0 && !s.parallel(); },
     [](const Settings& s) { return s.plugin; }, [](const Settings&) { return Texts{"gemini", "zero2", "zero2_cpu"}; },
     [](const Settings&, const std::string& v) { return Keys{{"plugin", v}}; }},
    {"zero_stage", "what the plugin 3d spreads: 1 optimizer states, 2 gradients", false, [](const Settings& s) { return s.parallel(); },
     [](const Settings& s) { return shown(s.zero_stage); }, [](const Settings&) { return Texts{"0", "1", "2"}; },
     [](const Settings&, const std::string& v) { return Keys{{"zero_stage", v}}; }},
    {"zero_cpu_offload", "the optimizer lives on the host", false, [](const Settings& s) { return s.parallel() && s.zero_stage > 0; },
     [](const Settings& s) { return shown(s.zero_cpu_offload); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"zero_cpu_offload", v}}; }},
    {"gradient_checkpointing", "layers are recomputed in the backward", false, [](const Settings& s) { return boosted(s) || s.program == Program::sft; },
     [](const Settings& s) { return shown(s.checkpointing); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"grad_checkpoint", v}}; }},
    {"flash_attention", "FlashAttention, and weights loaded in half precision", false, boosted,
     [](const Settings& s) { return shown(s.flash); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"use_flash_attn", v}}; }},
    {"micro_batch", "sequences a GPU trains on at once; those of an optimizer step stay", false,
     [](const Settings& s) { return (boosted(s) || s.program == Program::sft) && (!s.gemini() || !s.coati()) && (s.plugin != "gemini_auto" || s.coati()); },
     [](const Settings& s) { return shown(s.train_batch); }, train_batches,
     [](const Settings& s, const std::string& v) {
       const std::int64_t batch = std::max<std::int64_t>(1, Document::scalar(v).as_int().value_or(1));
       return Keys{{s.rl() ? "train_batch_size" : "batch_size", v}, {"accumulation_steps", shown(s.train_batch * s.accumulation / batch)}};
     }},
    {"experience_batch", "prompts a GPU collects at once; those of an episode stay", false, [](const Settings& s) { return s.rl(); },
     [](const Settings& s) { return shown(s.experience_batch); },
     [](const Settings& s) { std::vector<std::int64_t> out = settings::divisors(s.experience_batch * s.collects); out.push_back(s.experience_batch); return settings::texts(std::move(out)); },
     [](const Settings& s, const std::string& v) {
       const std::int64_t batch = std::max<std::int64_t>(1, Document::scalar(v).as_int().value_or(1));
       const bool first = s.coati() && !s.since(0, 3, 1);
       return Keys{{"experience_batch_size", v}, {first ? "max_timesteps" : "num_collect_steps", shown(s.experience_batch * s.collects / batch)}};
     }},
    {"text_batch", "texts that each update also learns", true, [](const Settings& s) { return s.program == Program::ppo && s.learns_texts(); },
     [](const Settings& s) { return shown(s.text_batch); },
     [](const Settings& s) { std::vector<std::int64_t> out = settings::doublings(1, 16); out.push_back(s.text_batch); return settings::texts(std::move(out)); },
     [](const Settings&, const std::string& v) { return Keys{{"ptx_batch_size", v}}; }},
};
// clang-format on

const settings::KnobTable<Settings> kTable{"ColossalChat", kRows, assign, make_job};

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

}  // namespace headroom::colossalchat
