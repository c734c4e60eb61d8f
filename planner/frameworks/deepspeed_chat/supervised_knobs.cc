#include "planner/frameworks/deepspeed_chat/supervised.h"
#include "planner/frameworks/settings/knobs.h"

namespace headroom::deepspeed_chat::supervised {
namespace {

using settings::shown;
using Keys = std::vector<Setting>;
using Texts = std::vector<std::string>;
using Row = settings::KnobRow<Settings>;

bool always(const Settings&) {
  return true;
}

// clang-format off
const Row kRows[] = {
    {"zero_stage", "what DeepSpeed spreads over the GPUs: 1 optimizer states, 2 gradients, 3 weights", false, always,
     [](const Settings& s) { return shown(s.zero_stage); }, [](const Settings& s) { Texts out{"1", "2", "3"}; if (!s.offload) out.insert(out.begin(), "0"); return out; },
     [](const Settings&, const std::string& v) { return Keys{{"zero_stage", v}}; }},
    {"offload", "the optimizer lives on the host, at stage 3 the weights too", false, [](const Settings& s) { return s.zero_stage > 0; },
     [](const Settings& s) { return shown(s.offload); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"offload", v}}; }},
    {"gradient_checkpointing", "layers are recomputed in the backward", false, always,
     [](const Settings& s) { return shown(s.checkpointing); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"gradient_checkpointing", v}}; }},
    {"micro_batch", "samples a GPU trains on at once; those of an optimizer step stay", false, always,
     [](const Settings& s) { return shown(s.batch); },
     [](const Settings& s) { std::vector<std::int64_t> out = settings::divisors(s.batch * s.accumulation); out.push_back(s.batch); return settings::texts(std::move(out)); },
     [](const Settings& s, const std::string& v) {
       const std::int64_t batch = std::max<std::int64_t>(1, Document::scalar(v).as_int().value_or(1));
       return Keys{{"per_device_train_batch_size", v}, {"gradient_accumulation_steps", shown(s.batch * s.accumulation / batch)}};
     }},
    {"eval_batch", "samples a GPU evaluates at once", false, always,
     [](const Settings& s) { return shown(s.eval_batch); },
     [](const Settings& s) { std::vector<std::int64_t> out = settings::doublings(1, 32); out.push_back(s.eval_batch); return settings::texts(std::move(out)); },
     [](const Settings&, const std::string& v) { return Keys{{"per_device_eval_batch_size", v}}; }},
};
// clang-format on

const settings::KnobTable<Settings> kTable{"DeepSpeed-Chat", kRows, assign, make_job};

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

}  // namespace headroom::deepspeed_chat::supervised
