#include "planner/frameworks/openrlhf/read.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "planner/frameworks/openrlhf/job.h"
#include "planner/frameworks/recorded_command.h"
#include "planner/frameworks/settings/arguments.h"
#include "planner/frameworks/shell/runner_count.h"

namespace headroom::openrlhf {
namespace {

/// Flags that only some releases take; the newest of those that take all is meant.
struct Clue {
  std::string_view flag;
  Release since, until;
};
constexpr std::array kRecorded = {
    ProgramName{"train_ppo_ray", "openrlhf.cli.train_ppo_ray"}, ProgramName{"train_sft", "openrlhf.cli.train_sft"},
    ProgramName{"train_rm", "openrlhf.cli.train_rm"}, ProgramName{"train_dpo", "openrlhf.cli.train_dpo"}};

constexpr Release kNever = settings::kNever, kFirst = settings::kFirst;
constexpr std::array kClues = {
    Clue{"bf16", kFirst, {0, 9, 2}},
    Clue{"param_dtype", {0, 9, 2}, kNever},
    Clue{"prompt_max_len", kFirst, {0, 9, 8}},
    Clue{"generate_max_len", kFirst, {0, 9, 8}},
    Clue{"flash_attn", kFirst, {0, 8, 11}},
    Clue{"attn_implementation", {0, 8, 11}, kNever},
    Clue{"use_dynamic_batch", {0, 8, 11}, kNever},
    Clue{"enable_vllm_is_correction", {0, 8, 11}, kNever},
    Clue{"async_train", {0, 8, 0}, kNever},
    Clue{"entropy_loss_coef", {0, 7, 5}, kNever},
    Clue{"deepspeed_enable_sleep", {0, 6, 2}, kNever},
    Clue{"colocate_all_models", {0, 5, 9}, kNever},
    Clue{"vllm_enable_sleep", {0, 5, 9}, kNever},
};

struct Libraries {
  Release openrlhf;
  std::string_view deepspeed, vllm, torch;
};
constexpr std::array kReleases = {
    Libraries{{0, 5, 9}, "0.16.3", "0.7.2", "2.5.1"},   Libraries{{0, 6, 2}, "0.16.4", "0.8.1", "2.6.0"},
    Libraries{{0, 7, 5}, "0.16.7", "0.8.5", "2.6.0"},   Libraries{{0, 8, 5}, "0.17.1", "0.9.2", "2.7.0"},
    Libraries{{0, 8, 11}, "0.17.5", "0.10.2", "2.8.0"}, Libraries{{0, 9, 1}, "0.18.1", "0.11.0", "2.8.0"},
    Libraries{{0, 9, 7}, "0.18.2", "0.13.0", "2.9.0"},  Libraries{{0, 10, 1}, "0.18.9", "0.19.0", "2.10.0"},
    Libraries{kHead, "0.19.5", "0.27.1", "2.11.0"},
};

Release infer_release(const Layers& layers, bool dotted, std::string& because) {
  if (dotted) {
    because = "dotted flags";
    return kHead;
  }
  Release oldest = kReleases.front().openrlhf, until = kDotted;
  for (const Clue& clue : kClues) {
    if (!layers.given(clue.flag)) continue;
    if (clue.since > oldest || clue.until < until)
      because += fmt::format("{}--{}", because.empty() ? "" : ", ", clue.flag);
    oldest = std::max(oldest, clue.since);
    until = std::min(until, clue.until);
  }
  Release found = oldest;
  for (const Libraries& known : kReleases)
    if (known.openrlhf >= oldest && known.openrlhf < until) found = known.openrlhf;
  return found;
}

void complete_versions(const Release& release, Versions& versions) {
  const Libraries* found = &kReleases.front();
  for (const Libraries& known : kReleases)
    if (known.openrlhf <= release) found = &known;
  if (versions.framework.empty()) versions.framework = to_string(release);
  if (versions.deepspeed.empty()) versions.deepspeed = found->deepspeed;
  if (versions.vllm.empty()) versions.vllm = found->vllm;
  if (versions.torch.empty()) versions.torch = found->torch;
}

/// `openrlhf.cli.train_NAME`, or a file of that name.
std::string program_of(const JobInput& input) {
  for (const JobInput::File& file : input.files) {
    if (file.launch == nullptr) continue;
    std::string name = file.launch->program;
    const std::string module = "openrlhf.cli.";
    if (const std::size_t at = name.find(module); at != std::string::npos)
      return name.substr(at + module.size());
    std::filesystem::path path(name);
    if (path.string().find("openrlhf") != std::string::npos && path.extension() == ".py") return path.stem();
    // `deepspeed --module $words`: the first word is the module.
    for (const shell::Word& word : file.launch->words)
      if (word.text.starts_with(module)) return word.text.substr(module.size());
  }
  return {};
}

Result<Program> known_program(const std::string& name, const JobInput& input) {
  if (name == "train_ppo_ray") return Program::rl;
  if (name == "train_sft") return Program::sft;
  if (name == "train_rm") return Program::rm;
  if (name == "train_dpo") return Program::dpo;
  const shell::Place& place = input.files.front().launch->place;
  return fail(
      Error{.message = fmt::format("OpenRLHF: {} is not read; expected train_ppo_ray, train_sft, train_rm "
                                   "or train_dpo",
                                   name),
            .file = place.file,
            .line = place.line,
            .key = {}});
}

void check(Values& v, Settings& s) {
  const auto open = [&](const std::string& key, const std::string& what) {
    settings::leave_unmodelled(v, s, key, what);
  };
  const auto type = parse_dtype(s.precision);
  if (!type || (*type != DType::bf16 && *type != DType::fp16 && *type != DType::fp32))
    v.fail_at(flag(s, "ds.param_dtype"),
              fmt::format("expected bf16 or fp16, found {}", s.precision.substr(0, 80)));
  if (!s.since(0, 9, 2) && !s.bf16)
    v.warn_at("bf16", "is not given: weights are taken as fp32, which takes twice the memory");
  if (s.load_in_4bit) open(flag(s, "ds.load_in_4bit"), "a policy in 4 bits");
  const auto accumulated = parse_dtype(s.accumulation);
  if (!s.accumulation.empty() && (!accumulated || *accumulated != type.value_or(DType::bf16)))
    open(flag(s, "ds.grad_accum_dtype"), "gradients accumulated in " + s.accumulation.substr(0, 20));
  if (s.rl() && !s.generates()) open(flag(s, "vllm.num_engines"), "generation without an engine");
  constexpr std::array<std::string_view, 7> kEstimators = {
      "gae", "reinforce", "rloo", "reinforce_baseline", "group_norm", "dr_grpo", "grpo"};
  if (std::find(kEstimators.begin(), kEstimators.end(), s.estimator) == kEstimators.end())
    open(flag(s, "algo.advantage.estimator"), "the estimator " + s.estimator.substr(0, 80));
  if (s.lora_rank > 0 && s.generates()) open(flag(s, "ds.lora.rank"), "sending adapters to an engine");
  // The engine only sleeps where it shares the models' GPUs.
  if (s.engine_sleep && !s.colocate_all)
    v.without_effect(flag(s, "vllm.enable_sleep"),
                     "engines sleep only with " + flag(s, "train.colocate_all"));
  if ((s.ref_offload || s.reward_offload) && s.stage < 3)
    v.without_effect(s.release < kDotted && s.rl() ? "ref_reward_offload" : "ref.offload",
                     "models are offloaded at ZeRO stage 3 only");
  if (s.sleep && s.adam_offload)
    v.without_effect(flag(s, "ds.enable_sleep"), "with the optimizer on the host nothing sleeps");
}

void find_models(Values& v, Settings& s, const JobOptions& options, const std::string& base) {
  if (v.failed()) return;
  const std::string key = flag(s, s.rl() ? "actor.model_name_or_path" : "model.model_name_or_path");
  if (!options.model.empty()) s.pretrain = options.model;
  if (s.pretrain.empty()) return v.fail_at(key, "no model is given; name it here or with --model");
  const auto find = [&](const std::string& name, const std::string& at, HeadKind head) {
    ModelRequest request;
    request.name = name;
    request.base = base;
    request.head = head;
    request.values = options.stated_model(name);
    return settings::model_at(v, at, request);
  };
  s.model = find(s.pretrain, key, s.program == Program::rm ? HeadKind::scalar : HeadKind::language_model);
  if (!s.ref_pretrain.empty())
    s.ref_model = find(s.ref_pretrain, flag(s, "ref.model_name_or_path"), HeadKind::language_model);
  if (s.has_reward()) {
    s.reward_model = find(s.reward_pretrain, flag(s, "reward.model_name_or_path"), HeadKind::scalar);
  }
  if (!s.has_critic()) return;
  // It starts as the reward model, or as the actor where rewards come from elsewhere.
  const std::string at = flag(s, "critic.model_name_or_path");
  if (s.critic_pretrain.empty()) s.critic_pretrain = s.has_reward() ? s.reward_pretrain : s.pretrain;
  s.critic_model = find(s.critic_pretrain, at, HeadKind::scalar);
}

/// Under `deepspeed` and `torchrun` the launcher says how many GPUs there are.
Status read_launcher(Settings& s, const shell::Launch& launch, const JobOptions& options) {
  std::optional<std::int64_t> nodes = options.nodes, gpus = options.gpus_per_node;
  if (!gpus) {
    HEADROOM_ASSIGN(gpus, shell::runner_count(launch, {"--num_gpus", "--nproc_per_node", "--nproc-per-node"}));
  }
  if (!nodes) {
    HEADROOM_ASSIGN(nodes, shell::runner_count(launch, {"--num_nodes", "--nnodes"}));
  }
  s.actor.gpus = gpus.value_or(s.actor.gpus);
  s.actor.nodes = nodes.value_or(s.actor.nodes);
  return {};
}

settings::OptionKeys option_keys(const Settings& s) {
  settings::OptionKeys out{
      .models = {flag(s, s.rl() ? "actor.model_name_or_path" : "model.model_name_or_path")},
      .release = "headroom.versions.openrlhf",
      .nodes = {},
      .gpus_per_node = {}};
  if (!s.rl()) return out;
  out.nodes = flag(s, "actor.num_nodes");
  out.gpus_per_node = flag(s, "actor.num_gpus_per_node");
  return out;
}

}  // namespace

bool detect(const JobInput& input) {
  return has_recorded_command(input, kRecorded) || !program_of(input).empty();
}

Result<ReadJob> read(const JobInput& input, const JobOptions& options) {
  if (has_recorded_command(input, kRecorded)) {
    const RecordedCommand run = recorded_command(input, options, kRecorded);
    return read(run.input, run.options);
  }
  const std::string name = program_of(input);
  if (name.empty())
    return fail(Error{.message = "expected a command or script that starts one of OpenRLHF's programs",
                      .file = input.files.front().path,
                      .key = {}});
  const auto file = std::find_if(input.files.begin(), input.files.end(),
                                 [](const JobInput::File& one) { return one.launch != nullptr; });
  auto made = std::make_shared<Settings>();
  Settings& s = *made;
  HEADROOM_ASSIGN(s.program, known_program(name, input));
  const std::vector<settings::Key> keys = keys_of(s.program);
  HEADROOM_ASSIGN(settings::Arguments arguments, settings::read_arguments(*file->launch, keys, options));
  Layers& layers = arguments.layers;
  for (const settings::Key& key : keys) {
    const bool nodes = key.path.ends_with("num_nodes"), gpus = key.path.ends_with("num_gpus_per_node");
    if (!(nodes && options.nodes) && !(gpus && options.gpus_per_node)) continue;
    HEADROOM_TRY(settings::state(layers, key.path, nodes ? options.nodes : options.gpus_per_node));
    arguments.unknown.erase(key.path);
  }
  bool dotted = false;
  for (const Layers::Leaf& leaf : layers.given_leaves())
    dotted = dotted || (leaf.key.find('.') != std::string::npos && !leaf.key.starts_with("headroom."));
  {
    Values early(layers);
    s.versions = settings::stated_versions(early, options, "openrlhf");
    HEADROOM_TRY(early.status());
  }
  if (s.versions.framework.empty()) {
    std::string because;
    s.release = infer_release(layers, dotted, because);
    s.assumptions.push_back(fmt::format("OpenRLHF {}{}", to_string(s.release),
                                        because.empty() ? " (no flag tells)" : " (" + because + ")"));
  } else {
    s.release = *parse_version(s.versions.framework);
  }
  complete_versions(s.release, s.versions);
  layers.set_defaults(settings::defaults(keys, s.release));
  Values values(layers);
  settings::refuse_unknown(values, keys, s.release, arguments.unknown);
  if (!s.rl()) s.actor.gpus = 8;
  read_settings(values, s);
  if (!s.rl()) HEADROOM_TRY(read_launcher(s, *file->launch, options));
  settings::take_options(s, options);
  for (Group* group : {&s.actor, &s.ref, &s.critic, &s.reward}) {
    if (options.nodes) group->nodes = *options.nodes;
    if (options.gpus_per_node) group->gpus = *options.gpus_per_node;
  }
  check(values, s);
  find_models(values, s, options, std::filesystem::path(file->path).parent_path().string());
  return settings::finish(values, std::move(made),
                          {.framework = "OpenRLHF",
                           .keys = keys,
                           .input = input,
                           .named_after = file->path,
                           .overrides = settings::effective_overrides(options, option_keys(s))},
                          [&] { return make_job(s); });
}

}  // namespace headroom::openrlhf
