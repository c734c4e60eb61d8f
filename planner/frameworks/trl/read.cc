#include "planner/frameworks/trl/read.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "planner/frameworks/lora_targets.h"
#include "planner/frameworks/settings/arguments.h"
#include "planner/frameworks/settings/usage.h"
#include "planner/frameworks/trl/case.h"
#include "planner/frameworks/trl/input.h"
#include "planner/frameworks/trl/job.h"
#include "planner/frameworks/trl/recording.h"
#include "planner/frameworks/trl/release.h"

namespace headroom::trl {
namespace {

/// What stands in a trainer's YAML and in no other framework's.
bool is_trainer_file(const Document& document) {
  if (!document.is_map() || document.find("stage") != nullptr || document.find("finetuning_type") != nullptr)
    return false;
  constexpr std::string_view kBeside[] = {
      "output_dir", "dataset_name", "datasets", "num_generations", "per_device_train_batch_size",
      "use_peft",   "learning_rate"};
  return document.find("model_name_or_path") != nullptr &&
         std::any_of(std::begin(kBeside), std::end(kBeside),
                     [&](std::string_view key) { return document.find(key) != nullptr; });
}

/// Keys of its own that a trainer has among those given: whose configuration they are.
std::optional<Trainer> trainer_by_keys(const Document& document) {
  std::vector<std::pair<std::size_t, Trainer>> counts;
  for (const Trainer trainer : {Trainer::grpo, Trainer::dpo, Trainer::sft, Trainer::reward, Trainer::ppo}) {
    const std::vector<settings::Key> keys = keys_of(trainer);
    const auto own =
        std::count_if(document.entries().begin(), document.entries().end(), [&](const auto& entry) {
          return std::any_of(keys.begin(), keys.end(), [&](const settings::Key& key) {
            return key.path == entry.first && key.effect != settings::Effect::none;
          });
        });
    counts.emplace_back(static_cast<std::size_t>(own), trainer);
  }
  std::stable_sort(counts.begin(), counts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  if (counts[0].first == counts[1].first) return std::nullopt;
  return counts[0].second;
}

Result<Trainer> find_trainer(const Sources& sources, const JobOptions& options, std::string& because) {
  const auto not_read = [](const std::string& name, const std::string& file, int line) {
    return fail(
        Error{.message = fmt::format("TRL: the trainer of {} is not read; expected grpo, rloo, ppo, dpo, "
                                     "sft or reward",
                                     name.empty() ? "this command" : name),
              .file = file,
              .line = line,
              .key = {}});
  };
  for (const std::string& text : options.overrides)
    if (text.find("headroom.trainer=") != std::string::npos) {
      const std::string name = text.substr(text.find('=') + 1);
      because = "headroom.trainer";
      if (const auto found = trainer_of(name)) return *found;
      return not_read(name, "--set", 0);
    }
  if (sources.command != nullptr) {
    const shell::Launch& launch = *sources.command->launch;
    const std::string name = trainer_name(launch);
    because = launch.runner == "trl" ? "trl " + name : launch.program;
    if (const auto found = trainer_of(name)) return *found;
    return not_read(name, launch.place.file, launch.place.line);
  }
  if (sources.trainers.empty()) return fail("expected TRL's command or the YAML of a trainer, found neither");
  const JobInput::File& file = *sources.trainers.back();
  if (const Document* own = file.document.find_path("headroom.trainer"))
    if (const auto found = trainer_of(own->text())) return *found;
  if (const auto found = trainer_by_keys(file.document)) {
    because = fmt::format("keys of {}", name_of(*found));
    return *found;
  }
  const std::string name = std::filesystem::path(file.path).stem().string();
  if (names_a_trainer(name)) {
    because = "the file's name";
    if (const auto found = trainer_of(name)) return *found;
    return not_read(name, file.path, file.document.line());
  }
  return fail(Error{.message = "expected keys that one trainer alone has, found none: say which with "
                               "--set headroom.trainer=grpo, rloo, ppo, dpo, sft or reward",
                    .file = file.path,
                    .line = file.document.line(),
                    .key = {}});
}

/// Settings that are known to change memory and have no program.
void leave_open(Values& v, Settings& s) {
  const auto open = [&](bool asked, const std::string& key, const std::string& what) {
    if (asked) settings::leave_unmodelled(v, s, key, what);
  };
  open(s.in_4bit, "load_in_4bit", "a policy in 4 bits");
  open(s.in_8bit, "load_in_8bit", "a policy in 8 bits");
  open(s.trainer != Trainer::sft && s.liger && !s.pairs(), "use_liger_kernel", "Liger's loss");
  open(s.trainer == Trainer::dpo && s.liger && s.since(1, 0), "use_liger_kernel", "Liger's loss");
  open(s.liger_loss, "use_liger_loss", "Liger's loss");
  open(s.trainer == Trainer::sft && s.liger && s.loss_type == "dft", "use_liger_kernel",
       "Liger's loss with dft");
  open(s.head_fp32, "cast_lm_head_to_fp32", "a head in fp32");
  open(s.trainer == Trainer::dpo && s.padding_free, "padding_free", "DPO without padding");
  open(s.online() && s.entropy_quantile < 1, "top_entropy_quantile", "a mask by entropies");
  open(s.sync_reference && s.has_reference() && s.zero3(), "sync_ref_model",
       "both models gathered whole while the reference follows");
  open(s.trainer == Trainer::rloo && !s.since(0, 22), "num_generations", "RLOO of releases before 0.22");
  open(s.generates() && s.evaluates(), s.eval_strategy != "no" ? "eval_strategy" : "evaluation_strategy",
       "generation of an evaluation");
  open(!s.deepspeed.optimizer.empty() && s.deepspeed.optimizer != "Adam" && s.deepspeed.optimizer != "AdamW",
       "ds.optimizer.type", "DeepSpeed's optimizer " + s.deepspeed.optimizer.substr(0, 40));
  constexpr std::string_view kOptimizers[] = {
      "", "adamw_torch", "adamw_torch_fused", "adamw_hf", "adamw_8bit", "adamw_bnb_8bit", "sgd"};
  const bool known =
      std::find(std::begin(kOptimizers), std::end(kOptimizers), s.optim) != std::end(kOptimizers);
  open(!known, "optim", "the optimizer " + s.optim.substr(0, 40));
  open(known && s.optimizer == OptimizerImplementation::eight_bit && s.distributed() != Distributed::none &&
           s.distributed() != Distributed::data_parallel,
       "optim", "an 8-bit optimizer of sharded weights");
  const auto types = {"", "auto", "float32", "bfloat16", "float16", "fp32", "bf16", "fp16", "float", "half"};
  const std::string& loaded = s.type.empty() ? s.torch_type : s.type;
  if (std::none_of(types.begin(), types.end(), [&](const char* type) { return loaded == type; }))
    v.fail_at(s.type.empty() ? "torch_dtype" : "dtype",
              fmt::format("expected float32, bfloat16, float16 or auto, found {}", loaded.substr(0, 40)));
}

/// Scripts that show a model pictures say so in their names.
void leave_pictures_open(Values& v, Settings& s, const Sources& sources) {
  if (v.failed() || sources.command == nullptr || s.model == nullptr || s.model->vision.blocks == 0) return;
  const std::string name = trainer_name(*sources.command->launch);
  if (name.find("vlm") != std::string::npos)
    settings::leave_unmodelled(v, s, s.trainer == Trainer::ppo ? "sft_model_path" : "model_name_or_path",
                               "what pictures take");
}

/// What has no effect as it stands, and what is taken for granted.
void note(Values& v, Settings& s) {
  const auto idle = [&](bool given, const std::string& key, const std::string& why) {
    if (given && v.given(key)) v.without_effect(key, why);
  };
  idle(s.trainer == Trainer::ppo, "gradient_checkpointing",
       "PPOTrainer's own loop switches no checkpointing on");
  idle(s.server() && s.generation.sleep, "vllm_enable_sleep_mode", "a server of its own does not sleep");
  idle(!s.generation.use_vllm && s.online(), "vllm_gpu_memory_utilization", "use_vllm is false");
  idle(s.online() && s.beta == 0, "sync_ref_model", "beta is 0: there is no reference");
  idle(!s.use_peft, "lora_r", "use_peft is false");
  if (s.launcher.type == "NO" && s.launcher.processes.value_or(1) > 1)
    s.assumptions.push_back("distributed_type NO starts one process, whatever num_processes says");
  if (s.generates() && !s.max_length && !s.max_prompt)
    s.assumptions.push_back(
        fmt::format("prompts of up to {} tokens (headroom.prompt_length says otherwise)", s.prompt));
  if (!s.generates() && !s.max_length)
    s.assumptions.push_back(
        fmt::format("sequences of up to {} tokens, where max_length bounds nothing", s.prompt + s.response));
  if (s.server())
    s.assumptions.push_back(fmt::format("a vLLM server on {} GPU(s) of its own (headroom.server_…)",
                                        s.generation.server_tensor * s.generation.server_data));
  if (!s.launcher.processes && !s.stated_gpus)
    s.assumptions.push_back("one GPU: nothing says how many processes are started");
  const std::string& loaded = s.since(0, 27) || !s.type.empty() ? s.type : s.torch_type;
  if (loaded == "auto") s.assumptions.push_back("a checkpoint in bf16 (dtype auto)");
}

void find_models(Values& v, Settings& s, const JobOptions& options, const JobInput::File& first) {
  if (v.failed()) return;
  const std::string base = std::filesystem::path(first.path).parent_path().string();
  const bool ppo = s.trainer == Trainer::ppo;
  const std::string key = ppo ? "sft_model_path" : "model_name_or_path";
  std::string& name = ppo ? s.sft_model : s.model_name;
  if (!options.model.empty()) name = options.model;
  if (name.empty())
    return v.fail_with(
        Error{.message = "no model is given; name it here or with --model",
              .file = first.path,
              .line = first.launch != nullptr ? first.launch->place.line : first.document.line(),
              .key = key},
        key);
  const auto find = [&](const std::string& model, const std::string& at,
                        HeadKind head) -> std::shared_ptr<const Architecture> {
    if (options.model.empty())
      if (auto stated = settings::stated_model(v, head)) return stated;
    ModelRequest request;
    request.name = model;
    request.base = base;
    request.head = head;
    return settings::model_at(v, at, request);
  };
  s.model = find(name, key, s.trainer == Trainer::reward ? HeadKind::scalar : HeadKind::language_model);
  if (ppo) s.reward_model = find(s.reward_path, "reward_model_path", HeadKind::scalar);
  if (s.online() && !s.reward_name.empty())
    s.reward_model = find(s.reward_name, "reward_model_name_or_path", HeadKind::scalar);
  if (!s.use_peft || v.failed() || s.lora_targets.empty()) return;
  Result<cases::LoraTargets> made =
      cases::lora_targets(*s.model, s.lora_targets, v.listed("lora_target_modules"), false);
  if (!made) return v.fail_with(std::move(made.error()), "lora_target_modules");
  for (const std::string& word : made->unmatched)
    v.warn_at("lora_target_modules",
              fmt::format("no linear module of {} is named {}", s.model->family, word));
  s.lora_targets = std::move(made->names);
}

Result<ReadJob> read_run(const JobInput& input, const JobOptions& options, bool recorded = false) {
  const Sources sources = sort_files(input);
  auto made = std::make_shared<Settings>();
  Settings& s = *made;
  s.recorded = recorded;
  std::string because;
  HEADROOM_ASSIGN(s.trainer, find_trainer(sources, options, because));
  const std::vector<settings::Key> keys = keys_of(s.trainer);
  HEADROOM_ASSIGN(Laid laid, lay(sources, keys, options));
  {
    Values early(laid.layers);
    s.versions = settings::stated_versions(early, options, "trl");
    HEADROOM_TRY(early.status());
  }
  s.assumptions = std::move(laid.assumptions);
  if (s.versions.framework.empty()) {
    const InferredRelease found = infer_release(laid.layers, keys);
    s.release = found.release;
    s.assumptions.push_back(
        fmt::format("TRL {}{}", to_string(s.release),
                    found.because.empty() ? " (no key tells)" : " (" + found.because + ")"));
  } else {
    s.release = *parse_version(s.versions.framework);
  }
  complete_versions(s.release, s.versions);
  laid.layers.set_defaults(settings::defaults(keys, s.release));
  Values values(laid.layers);
  settings::refuse_unknown(values, keys, s.release, laid.unknown);
  read_settings(values, s);
  settings::take_options(s, options);
  s.deepspeed.given = laid.layers.given("ds");
  if (sources.command != nullptr) {
    const std::string& runner = sources.command->launch->runner;
    s.takes_accelerate_flags = runner == "accelerate" || runner == "trl";
  }
  const JobInput::File& first = sources.command != nullptr ? *sources.command : *sources.trainers.front();
  derive(s);
  if (!values.failed()) leave_open(values, s);
  find_models(values, s, options, first);
  leave_pictures_open(values, s, sources);
  if (!values.failed()) note(values, s);
  return settings::finish(
      values, made,
      {.framework = "TRL",
       .keys = keys,
       .input = input,
       .named_after = first.path,
       .overrides = settings::effective_overrides(
           options, {.models = {s.trainer == Trainer::ppo ? "sft_model_path" : "model_name_or_path"},
                     .release = "headroom.versions.trl",
                     .nodes = "accelerate.num_machines",
                     .gpus_per_node = {}})},
      [&] { return make_job(s); });
}

}  // namespace

bool detect(const JobInput& input) {
  if (has_recording(input) || is_case(input)) return true;
  return std::any_of(input.files.begin(), input.files.end(), [](const JobInput::File& file) {
    return file.launch != nullptr ? !trainer_name(*file.launch).empty() : is_trainer_file(file.document);
  });
}

Result<ReadJob> read(const JobInput& input, const JobOptions& options) {
  if (has_recording(input)) {
    HEADROOM_ASSIGN(const JobInput run, without_recordings(input));
    JobOptions as_recorded = options;
    if (!as_recorded.steps) as_recorded.steps = recorded_steps(input);
    return read_run(run, as_recorded, true);
  }
  const bool launched = std::any_of(input.files.begin(), input.files.end(),
                                    [](const JobInput::File& file) { return file.launch != nullptr; });
  const bool run =
      launched || std::any_of(input.files.begin(), input.files.end(),
                              [](const JobInput::File& file) { return is_trainer_file(file.document); });
  return run ? read_run(input, options) : read_case(input, options);
}

}  // namespace headroom::trl
