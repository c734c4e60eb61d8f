#include <array>

#include "planner/frameworks/case_file.h"
#include "planner/frameworks/deepspeed_chat/settings.h"

namespace headroom::deepspeed_chat {
namespace {

constexpr std::int64_t kMost = 1 << 24;

constexpr std::array<std::string_view, 21> kKeys = {
    "name",       "group",       "actor",  "critic",   "dtype",        "zero_stage", "offload",
    "pin_memory", "batch",       "prompt", "response", "steps",        "fp16_extra", "grad_ckpt",
    "padded",     "empty_cache", "world",  "device",   "total_memory", "alloc_conf", "seed"};

/// The scale at which gradients of a fresh model no longer overflow fp16; an assumption.
constexpr std::int64_t kSafeScalePower = 8;
/// Overflows that the scaler lets pass before it halves the scale (hysteresis).
constexpr std::int64_t kHysteresis = 2;

}  // namespace

std::span<const std::string_view> known_keys() {
  return kKeys;
}

std::int64_t skipped_steps(std::int64_t power) {
  return power <= kSafeScalePower ? 0 : power - kSafeScalePower + kHysteresis - 1;
}

Result<std::shared_ptr<Settings>> read_settings(Values& v) {
  auto made = std::make_shared<Settings>();
  Settings& s = *made;
  s.name = v.text("name");
  if (!v.given("actor")) v.fail_at("actor", "expected the model's config values (model_type and sizes)");
  s.actor = cases::model(v, "actor");
  s.critic = v.given("critic") ? cases::model(v, "critic") : s.actor;
  for (const char* key : {"batch", "prompt", "response", "zero_stage"})
    if (!v.given(key)) v.fail_at(key, "expected a number, found none");
  s.zero_stage = v.integer("zero_stage", 0, 3);
  s.dtype = v.word("dtype", {"fp16", "bf16"}, "fp16") == "bf16" ? DType::bf16 : DType::fp16;
  s.batch = v.integer("batch", 1, kMost, 1);
  s.prompt = v.integer("prompt", 1, kMost, 1);
  s.response = v.integer("response", 1, kMost, 1);
  s.steps_given = v.given("steps");
  s.steps = static_cast<int>(v.integer("steps", 1, 1000, 3));
  s.initial_scale_power = v.integer("fp16_extra.initial_scale_power", 0, 32, 16);
  s.offload = v.flag("offload");
  s.pin_memory = v.flag("pin_memory");
  s.grad_ckpt = v.flag("grad_ckpt");
  s.padded = v.flag("padded", true);
  s.empty_cache = v.word("empty_cache", {"none", "inference", "all"}, "none");
  s.world = v.integer("world", 1, 65536, 2);
  s.allocator_settings = v.text("alloc_conf");
  s.device = v.text("device");
  s.total_memory = v.integer("total_memory", 0, std::int64_t{1} << 50);
  if (!v.failed()) {
    if (s.offload && s.zero_stage == 0)
      v.fail_at("offload", "expected zero_stage 1 to 3: without sharding there is no offload");
    if (s.pin_memory && !s.offload) v.fail_at("pin_memory", "expected offload: true");
    cases::check_positions(v, "actor", s.actor.get(), s.prompt, s.response);
    cases::check_positions(v, "critic", s.critic.get(), s.prompt, s.response);
  }
  HEADROOM_TRY(v.status());
  return made;
}

}  // namespace headroom::deepspeed_chat
