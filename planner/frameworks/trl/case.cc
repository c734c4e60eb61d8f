#include "planner/frameworks/trl/case.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "planner/frameworks/lora_targets.h"
#include "planner/frameworks/trl/job.h"

namespace headroom::trl {
namespace {

constexpr std::int64_t kMost = cases::kMostSequences, kMostTokens = cases::kMostTokens;

constexpr std::array<std::string_view, 44> kKeys = {"name",
                                                    "group",
                                                    "trainer",
                                                    "model",
                                                    "batch",
                                                    "per_device_train_batch_size",
                                                    "accum",
                                                    "gradient_accumulation_steps",
                                                    "steps_per_generation",
                                                    "prompt",
                                                    "response",
                                                    "max_completion_length",
                                                    "response_length",
                                                    "steps",
                                                    "max_steps",
                                                    "total_episodes",
                                                    "epochs",
                                                    "num_ppo_epochs",
                                                    "num_mini_batches",
                                                    "rollout_batch",
                                                    "local_rollout_forward_batch_size",
                                                    "num_sample_generations",
                                                    "dataset",
                                                    "whiten_rewards",
                                                    "beta",
                                                    "num_generations",
                                                    "num_iterations",
                                                    "dtype",
                                                    "bf16",
                                                    "fp16",
                                                    "lora",
                                                    "lora_targets",
                                                    "grad_ckpt",
                                                    "gradient_checkpointing",
                                                    "optim",
                                                    "loss_type",
                                                    "temperature",
                                                    "use_vllm",
                                                    "use_liger_kernel",
                                                    "torch_empty_cache_steps",
                                                    "seed",
                                                    "device",
                                                    "total_memory",
                                                    "alloc_conf"};

/// What would take other tensors than those that are modelled.
void refuse_others(Values& v) {
  for (const char* key : {"use_vllm", "use_liger_kernel", "fp16"})
    if (v.flag(key)) v.fail_at(key, "expected false: true is not modelled");
  if (v.optional_integer("torch_empty_cache_steps", 1, kMost))
    v.fail_at("torch_empty_cache_steps", "expected none: emptying the cache is not modelled");
}

/// Keys of the other trainer: read, so that their values are checked, and without effect here.
void note_without_effect(Values& v, std::initializer_list<const char*> keys, const char* trainer) {
  for (const char* key : keys)
    if (v.given(key)) {
      v.optional_text(key);
      v.without_effect(key, fmt::format("the trainer {} does not read it", trainer));
    }
}

/// PEFT's `target_modules`, where the model is adapted.
void read_targets(Values& v, Settings& s) {
  std::vector<std::string> words = v.texts("lora_targets");
  const bool is_list = v.listed("lora_targets");
  if (words.empty() && !is_list) words = {"all-linear"};
  if (v.failed() || s.lora == 0) return;
  Result<cases::LoraTargets> made = cases::lora_targets(*s.model, words, is_list, false);
  if (!made) return v.fail_with(std::move(made.error()), "lora_targets");
  for (const std::string& word : made->unmatched)
    v.warn_at("lora_targets", fmt::format("no linear module of {} is named {}", s.model->family, word));
  s.lora_targets = std::move(made->names);
}

void read_grpo(Values& v, Settings& s) {
  s.response = v.integer(cases::either(v, "response", "max_completion_length"), 1, kMostTokens, 256);
  s.steps_per_generation = v.integer("steps_per_generation", 1, 65536, s.accum);
  s.num_generations = v.integer("num_generations", 2, 65536, 8);
  s.num_iterations = v.integer("num_iterations", 1, 65536, 1);
  s.steps = static_cast<int>(v.integer(cases::either(v, "steps", "max_steps"), 1, 1000, 3));
  s.beta = v.number("beta", 0, 1e6, 0);
  s.mixed_precision = v.flag("bf16", true);
  s.lora = v.integer("lora", 0, 65536, 0);
  read_targets(v, s);
  s.grad_ckpt = v.flag(cases::either(v, "grad_ckpt", "gradient_checkpointing"), true);
  s.temperature = v.number("temperature", 1e-6, 1e6, 1);
  // These weigh the same tokens: their tensors are the same.
  v.word("loss_type", {"dapo", "grpo", "bnpo", "dr_grpo"}, "dapo");
  note_without_effect(v,
                      {"epochs", "num_ppo_epochs", "num_mini_batches", "rollout_batch", "dataset",
                       "local_rollout_forward_batch_size"},
                      "grpo");
  if (v.failed()) return;
  if (s.batch * s.steps_per_generation % s.num_generations != 0)
    v.fail_at("num_generations",
              "expected a divisor of batch times steps_per_generation, which are generated at once");
  if (s.lora == 0 && v.given("lora_targets"))
    v.without_effect("lora_targets", "nothing is adapted without a rank in `lora`");
}

void read_ppo(Values& v, Settings& s) {
  s.response = v.integer(cases::either(v, "response", "response_length"), 1, kMostTokens, 53);
  s.epochs = v.integer(cases::either(v, "epochs", "num_ppo_epochs"), 1, 1024, 1);
  s.mini_batches = v.integer("num_mini_batches", 1, 65536, 1);
  s.rollout_batch =
      v.integer(cases::either(v, "rollout_batch", "local_rollout_forward_batch_size"), 1, kMost, 64);
  s.prompts = v.integer("dataset", 1, std::int64_t{1} << 40, 32);
  s.temperature = v.number("temperature", 1e-6, 1e6, 0.7);
  const std::int64_t sequences = s.batch * s.accum;
  const std::int64_t episodes = v.integer("total_episodes", 1, std::int64_t{1} << 40, 3 * sequences);
  const std::int64_t updates = std::min<std::int64_t>(ceil_div(episodes, sequences), 1000);
  s.steps = static_cast<int>(v.integer("steps", 1, 1000, updates));
  if (v.given("total_episodes") && v.given("steps") && s.steps != updates)
    v.fail_at("total_episodes",
              fmt::format("expected as many updates as steps, which is the same setting; found "
                          "{} of {} sequences and {} steps",
                          updates, sequences, s.steps));
  if (v.integer("num_sample_generations", 0, kMost, 0) != 0)
    v.fail_at("num_sample_generations", "expected 0: samples for the log are not modelled");
  if (v.flag("whiten_rewards")) v.fail_at("whiten_rewards", "expected false: true is not modelled");
  note_without_effect(v,
                      {"num_generations", "num_iterations", "steps_per_generation", "beta", "loss_type",
                       "lora", "lora_targets", "grad_ckpt", "gradient_checkpointing", "bf16", "max_steps"},
                      "ppo");
  if (v.failed()) return;
  if (s.accum % s.mini_batches != 0)
    v.fail_at("num_mini_batches", "expected a divisor of accum: mini-batches are whole micro-batches");
}

}  // namespace

namespace {

Result<std::shared_ptr<Settings>> read_settings(Values& v, const JobOptions& options) {
  auto made = std::make_shared<Settings>();
  Settings& s = *made;
  s.recorded = true;
  s.save_strategy = "no";
  s.name = v.text("name");
  s.trainer = v.word("trainer", {"grpo", "ppo"}, "grpo") == "ppo" ? Trainer::ppo : Trainer::grpo;
  const bool ppo = s.trainer == Trainer::ppo;
  s.model = cases::model(v, "model", options.model);
  const std::string_view batch = cases::either(v, "batch", "per_device_train_batch_size"),
                         response =
                             cases::either(v, "response", ppo ? "response_length" : "max_completion_length");
  cases::require(v, {batch, "prompt", response}, "a number");
  s.batch = v.integer(batch, 1, kMost, 8);
  s.accum = v.integer(cases::either(v, "accum", "gradient_accumulation_steps"), 1, 65536, 1);
  s.prompt = v.integer("prompt", 1, kMostTokens, 1);
  v.word("dtype", {"float32", "bfloat16", "float16", "float", "half"}, "float32");
  s.dtype = v.dtype("dtype", DType::fp32);
  if (v.word("optim", {"adamw_torch_fused", "adamw_torch"}, "adamw_torch_fused") == "adamw_torch")
    s.optimizer = OptimizerImplementation::foreach_;
  refuse_others(v);
  ppo ? read_ppo(v, s) : read_grpo(v, s);
  if (options.steps) s.steps = *options.steps;
  if (ppo) {
    s.mixed_precision = s.grad_ckpt = false;
    s.reward_model = s.model;
  }
  cases::read_machine(v, s.machine);
  if (!v.failed()) {
    cases::check_positions(v, "model", s.model.get(), s.prompt, s.response);
    cases::check_program(v, "model", s.model.get(), cases::default_attention(*s.model));
  }
  HEADROOM_TRY(v.status());
  return made;
}

}  // namespace

bool is_case(const JobInput& input) {
  return std::any_of(input.files.begin(), input.files.end(), [](const JobInput::File& file) {
    const Document& keys = cases::inner(file.document);
    const Document *model = keys.find("model"), *trainer = keys.find("trainer");
    // `trainer` is a section of verl's, a word here; GRPO is the default.
    return (trainer != nullptr && trainer->is_scalar()) ||
           (model != nullptr && model->is_map() && model->find("model_type") != nullptr &&
            keys.find("prompt") != nullptr);
  });
}

Result<ReadJob> read_case(const JobInput& input, const JobOptions& options) {
  HEADROOM_ASSIGN(const Layers layers, cases::lay(input, options));
  Values values(layers, Values::Grammar::strict);
  HEADROOM_ASSIGN(const std::shared_ptr<Settings> settings, read_settings(values, options));
  Job job = assemble(*settings);
  job.versions.framework = to_string(settings->release);
  return cases::finish(std::move(job), input, options, layers, values, kKeys, settings);
}

}  // namespace headroom::trl
