#include <array>

#include "planner/frameworks/case_file.h"
#include "planner/frameworks/trl/settings.h"

namespace headroom::trl {
namespace {

constexpr std::int64_t kMost = 1 << 24;

constexpr std::array<std::string_view, 19> kKeys = {
    "name",     "group",     "trainer", "model",           "batch",          "accum", "prompt",
    "response", "steps",     "beta",    "num_generations", "num_iterations", "dtype", "lora",
    "seed",     "grad_ckpt", "device",  "total_memory",    "alloc_conf"};

}  // namespace

std::span<const std::string_view> known_keys() {
  return kKeys;
}

Result<std::shared_ptr<Settings>> read_settings(Values& v, std::optional<int> steps) {
  auto made = std::make_shared<Settings>();
  Settings& s = *made;
  s.name = v.text("name");
  v.word("trainer", {"grpo"}, "grpo");
  if (!v.given("model")) v.fail_at("model", "expected the model's config values (model_type and sizes)");
  s.model = cases::model(v, "model");
  for (const char* key : {"batch", "prompt", "response"})
    if (!v.given(key)) v.fail_at(key, "expected a number, found none");
  s.batch = v.integer("batch", 1, kMost, 8);
  s.accum = v.integer("accum", 1, 65536, 1);
  s.prompt = v.integer("prompt", 1, kMost, 1);
  s.response = v.integer("response", 1, kMost, 256);
  s.num_generations = v.integer("num_generations", 2, 65536, 8);
  s.num_iterations = v.integer("num_iterations", 1, 65536, 1);
  s.steps = steps ? *steps : v.integer("steps", 1, 1000, 3);
  s.beta = v.number("beta", 0, 1e6, 0);
  s.dtype = v.word("dtype", {"float32", "bfloat16"}, "float32") == "bfloat16" ? DType::bf16 : DType::fp32;
  s.lora = v.integer("lora", 0, 65536, 0);
  s.grad_ckpt = v.flag("grad_ckpt", true);
  s.allocator_settings = v.text("alloc_conf");
  s.device = v.text("device");
  s.total_memory = v.integer("total_memory", 0, std::int64_t{1} << 50);
  if (!v.failed()) {
    if (s.batch * s.accum % s.num_generations != 0)
      v.fail_at("num_generations", "expected a divisor of batch times accum, which are generated at once");
    cases::check_positions(v, "model", s.model.get(), s.prompt, s.response);
  }
  HEADROOM_TRY(v.status());
  return made;
}

}  // namespace headroom::trl
