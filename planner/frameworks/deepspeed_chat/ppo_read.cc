#include <fmt/format.h>

#include <tuple>

#include "planner/frameworks/case_file.h"
#include "planner/frameworks/deepspeed_chat/flags.h"
#include "planner/frameworks/deepspeed_chat/models.h"
#include "planner/frameworks/deepspeed_chat/ppo.h"
#include "simulator/engine/hybrid.h"

namespace headroom::deepspeed_chat::ppo {
namespace {

const JobInput::File* launch_file(const JobInput& input) {
  for (const JobInput::File& file : input.files)
    if (file.launch != nullptr && file.launch->program.ends_with("main.py") && has(*file.launch, "--actor_model_name_or_path"))
      return &file;
  return nullptr;
}

void find_models(Values& v, Settings& s, const JobOptions& options, const std::string& base) {
  if (!options.model.empty()) s.actor.path = options.model;
  for (auto& [model, key, head] : {std::tuple{&s.actor, "actor_model_name_or_path", HeadKind::language_model},
                                   std::tuple{&s.critic, "critic_model_name_or_path", HeadKind::scalar}}) {
    if (v.failed()) return;
    if (model->path.empty()) return v.fail_at(key, "expected a model, found none");
    model->model = model_of(v, key, model->path, head, base, options.stated_model(model->path));
    if (model->model == nullptr) return;
    cases::check_positions(v, key, model->model.get(), s.prompt, s.response);
    cases::check_program(v, key, model->model.get(), cases::default_attention(*model->model));
  }
  if (!v.failed()) cases::check_vocabulary(v, "critic_model_name_or_path", s.critic.model.get(), s.actor.model.get());
}

void check_numbers(Values& v, const Settings& s) {
  if (s.dtype != "fp16" && s.dtype != "bf16")
    v.fail_at("dtype", fmt::format("expected fp16 or bf16, found {}", s.dtype.substr(0, 80)));
  for (const auto& [model, key] : {std::pair{&s.actor, "actor_dropout"}, std::pair{&s.critic, "critic_dropout"}})
    if (!model->dropout.empty() && !Document::scalar(model->dropout).as_double())
      v.fail_at(key, fmt::format("expected a number, found {}", model->dropout.substr(0, 80)));
}

/// Flags that the run never looks at.
void check_effects(Values& v, const Settings& s) {
  const auto idle = [&](const char* key, bool unread, std::string_view why) {
    if (unread && v.given(key)) v.without_effect(key, why);
  };
  const bool adapters = s.actor.lora_rank + s.critic.lora_rank > 0;
  idle("only_optimize_lora", s.only_lora && !adapters, "without --actor_lora_dim or --critic_lora_dim there are no adapters");
  idle("offload_reference_model", s.actor.zero_stage != 3, "only zero stage 3 offloads parameters");
  idle("offload_reward_model", s.critic.zero_stage != 3, "only zero stage 3 offloads parameters");
  for (const char* key : {"unpin_actor_parameters", "release_inference_cache", "tp_gather_partition_size"})
    idle(key, !s.hybrid, "only the hybrid engine reads it");
  idle("tp_gather_partition_size", s.inference_tensor == 1, "only --inference_tp_size above 1 gathers layers to cut them");
  idle("unpin_actor_parameters", s.actor.zero_stage != 3, "only zero stage 3 gathers parameters");
  idle("per_device_training_batch_size", s.trained() > s.generated(), "no more than were generated at once are trained on at once");
  for (const auto& [model, rank, scope] :
       {std::tuple{&s.actor, "actor_lora_dim", "actor_lora_module_name"}, std::tuple{&s.critic, "critic_lora_dim", "critic_lora_module_name"}}) {
    idle(scope, model->lora_rank == 0, "there are no adapters");
    if (model->lora_rank > 0 && adapted_modules(*model->model, model->lora_scope).empty())
      v.without_effect(rank, fmt::format("no linear's name holds \"{}\": nothing is adapted, and everything trains", model->lora_scope.substr(0, 80)));
  }
}

void note_missing(Values& v, Settings& s) {
  if (s.hybrid && !has_hybrid_kernels(*s.actor.model))
    s.assumptions.push_back(fmt::format("the hybrid engine has no kernels for {}: Transformers generates", s.actor.model->family));
  if (s.quantized_lora) settings::leave_unmodelled(v, s, "enable_mixed_precision_lora", "frozen weights in 8 bits");
  if (s.align_overflow)
    settings::leave_unmodelled(v, s, "align_overflow", "the actor's gradients wait for the critic's backward");
  if (!s.unsupervised.empty()) settings::leave_unmodelled(v, s, "unsupervised_dataset_name", "a language-model loss beside each update");
}

void check(Values& v, Settings& s, const JobOptions& options, const std::string& base) {
  check_numbers(v, s);
  find_models(v, s, options, base);
  if (v.failed()) return;
  check_effects(v, s);
  note_missing(v, s);
}

}  // namespace

bool is_command(const JobInput& input) {
  return launch_file(input) != nullptr;
}

Result<ReadJob> read(const JobInput& input, const JobOptions& options) {
  const JobInput::File& file = *launch_file(input);
  auto made = std::make_shared<Settings>();
  made->assumptions.push_back("DeepSpeed-Chat's step 3, PPO (--actor_model_name_or_path)");
  return read_flags<Settings>(input, file, options, std::move(made),
                              {.keys = keys(),
                               .model_key = "actor_model_name_or_path",
                               .read = read_settings,
                               .check = check,
                               .make_job = make_job});
}

}  // namespace headroom::deepspeed_chat::ppo
