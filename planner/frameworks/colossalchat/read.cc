#include "planner/frameworks/colossalchat/read.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "planner/configuration/value_grammar.h"
#include "planner/frameworks/colossalchat/job.h"
#include "planner/frameworks/recorded_command.h"
#include "planner/frameworks/settings/arguments.h"
#include "planner/frameworks/shell/runner_count.h"

namespace headroom::colossalchat {
namespace {

namespace fs = std::filesystem;

struct Known {
  std::string_view file;
  Program program;
  bool coati, boosted;
};
constexpr std::array kPrograms = {
    Known{"train_prompts.py", Program::ppo, true, false},
    Known{"train_reward_model.py", Program::rm, true, false},
    Known{"benchmark_opt_lora_dummy.py", Program::benchmark, true, false},
    Known{"train_ppo.py", Program::ppo, false, true},
    Known{"benchmark_ppo.py", Program::ppo, false, true},
    Known{"train_grpo.py", Program::grpo, false, true},
    Known{"train_sft.py", Program::sft, true, true},
    Known{"train_rm.py", Program::rm, false, true},
    Known{"train_dpo.py", Program::dpo, false, true},
    Known{"train_orpo.py", Program::orpo, false, true},
    Known{"train_kto.py", Program::kto, false, true},
    Known{"lora_finetune.py", Program::sft, false, true},
};

/// Flags that only some releases take; the newest of those that take all is meant.
struct Clue {
  std::string_view flag;
  Release since, until;
};
constexpr Release kNever = settings::kNever, kFirst = settings::kFirst;
constexpr std::array kClues = {
    Clue{"max_timesteps", kFirst, {0, 3, 0}},   Clue{"update_timesteps", kFirst, {0, 3, 0}},
    Clue{"prompt_path", kFirst, {0, 3, 0}},     Clue{"merge_lora_weights", {0, 3, 3}, kBoosted},
    Clue{"num_collect_steps", {0, 3, 0}, kNever},
    Clue{"accimulation_steps", kFirst, {0, 3, 0}},
    Clue{"lora_config", kLoraFiles, kNever},
};
constexpr std::array kReleases = {Release{0, 2, 8}, Release{0, 3, 1}, Release{0, 3, 3}, kNewestCoati, Release{0, 4, 2}, Release{0, 4, 9}, kHead};

constexpr std::array kRecorded = {
    ProgramName{"colossalchat/train_sft", "ColossalChat/examples/training_scripts/train_sft.py"},
    ProgramName{"colossalchat/train_dpo", "ColossalChat/examples/training_scripts/train_dpo.py"},
    ProgramName{"colossalchat/train_orpo", "ColossalChat/examples/training_scripts/train_orpo.py"},
    ProgramName{"colossalchat/train_rm", "ColossalChat/examples/training_scripts/train_rm.py"},
};

bool has(const shell::Launch& launch, std::string_view flag) {
  return std::any_of(launch.words.begin(), launch.words.end(), [&](const shell::Word& word) {
    return word.text == flag || word.text.starts_with(std::string(flag) + "=");
  });
}

const Known* known(const shell::Launch& launch) {
  const std::string name = fs::path(launch.program).filename().string();
  const auto found = std::find_if(kPrograms.begin(), kPrograms.end(), [&](const Known& one) { return one.file == name; });
  if (found == kPrograms.end()) return nullptr;
  const bool own = found->file == "train_prompts.py" || found->file == "benchmark_opt_lora_dummy.py" ||
                   launch.program.find("ColossalChat") != std::string::npos || launch.runner == "colossalai";
  const bool strategy = found->coati && has(launch, "--strategy"), plugin = found->boosted && has(launch, "--plugin");
  return own || strategy || plugin ? &*found : nullptr;
}

const JobInput::File* launch_file(const JobInput& input) {
  for (const JobInput::File& file : input.files)
    if (file.launch != nullptr && known(*file.launch) != nullptr) return &file;
  return nullptr;
}

Release infer_release(const Layers& layers, bool coati, Program program, std::string& because) {
  Release oldest = coati ? kReleases.front() : kBoosted, until = coati ? kBoosted : kNever;
  because = coati ? "--strategy" : "--plugin";
  for (const Clue& clue : kClues) {
    if (!layers.given(clue.flag)) continue;
    if (clue.since > oldest || clue.until < until) because += fmt::format(", --{}", clue.flag);
    oldest = std::max(oldest, clue.since);
    until = std::min(until, clue.until);
  }
  // PPO's kept its flag.
  if (!coati && program != Program::ppo && layers.given("lora_rank")) {
    until = std::min(until, kLoraFiles);
    because += ", --lora_rank";
  }
  Release found = oldest;
  for (const Release& release : kReleases)
    if (release >= oldest && release < until) found = release;
  return found;
}

void check_word(Values& v, const std::string& key, const std::string& found, std::initializer_list<std::string_view> expected) {
  if (std::find(expected.begin(), expected.end(), found) != expected.end()) return;
  v.fail_at(key, fmt::format("expected one of {}, found {}", fmt::join(expected, ", "), found.substr(0, 80)));
}

/// Adapters of a JSON file: its rank.
void read_lora(Values& v, Settings& s, const std::string& base) {
  if (s.lora_config.empty()) return;
  const fs::path path = fs::path(s.lora_config).is_absolute() ? fs::path(s.lora_config) : fs::path(base) / s.lora_config;
  const Result<Document> file = read_document(path.string());
  const Document* rank = file ? file->find("r") : nullptr;
  const auto number = rank != nullptr ? rank->as_int() : std::nullopt;
  if (!file)
    v.fail_at("lora_config", fmt::format("expected the adapters' JSON file, which can't be read: {}", path.string()));
  else if (!number || *number < 0)
    v.fail_at("lora_config", fmt::format("expected a rank r in {}", path.string()));
  else
    s.lora_rank = *number;
}

void check(Values& v, Settings& s) {
  const auto open = [&](const std::string& key, const std::string& what) { settings::leave_unmodelled(v, s, key, what); };
  if (s.coati()) {
    if (s.program == Program::benchmark)
      check_word(v, "strategy", s.strategy,
                 {"ddp", "colossalai_gemini", "colossalai_gemini_cpu", "colossalai_zero1", "colossalai_zero1_cpu",
                  "colossalai_zero2", "colossalai_zero2_cpu"});
    else
      check_word(v, "strategy", s.strategy,
                 {"naive", "ddp", "colossalai_gemini", "colossalai_zero2", "colossalai_zero2_cpu"});
    if (s.kernels) open("use_kernels", "attention of xformers");
    if (s.lora_rank > 0 && s.family == "gpt2")
      open("lora_rank", "GPT-2, whose layers are no nn.Linear and get no adapters,");
    if (s.lora_rank > 0 && s.checkpointing) {
      v.without_effect("grad_checkpoint", "it is switched off with adapters");
      s.checkpointing = false;
    }
    if (s.memory_fraction < 1)
      v.warn_at("cuda_mem_frac", fmt::format("the allocator stops at {} of the card; --budget states it", s.memory_fraction));
    return;
  }
  constexpr Release kBoth{0, 4, 1};
  if (s.program == Program::sft && s.lora_rank > 0 && s.checkpointing && s.release < kBoth) {
    v.without_effect("grad_checkpoint", "it is switched off with adapters");
    s.checkpointing = false;
  }
  check_word(v, "plugin", s.plugin, {"gemini", "gemini_auto", "zero2", "zero2_cpu", "3d", "ddp"});
  check_word(v, "mixed_precision", s.precision, {"fp16", "bf16"});
  if (s.plugin == "gemini_auto") open("plugin", "Gemini's automatic placement");
  if (s.parallel()) {
    if (s.pipeline > 1) open("pp", "a pipeline of ColossalAI's");
    if (s.sequence > 1 || s.sequence_parallel) open(s.sequence > 1 ? "sp" : "enable_sequence_parallelism", "sequence parallelism of ColossalAI's");
    if (s.tensor > 1)
      s.assumptions.push_back("tensor parallelism cuts layers and the head; logits stay cut, where ColossalChat gathers them");
  } else {
    for (const char* key : {"tp", "pp", "sp", "zero_stage", "zero_cpu_offload", "enable_sequence_parallelism"})
      if (v.given(key)) v.without_effect(key, "only --plugin 3d reads it");
  }
  if (s.program == Program::grpo && s.text_coefficient != 0) open("ptx_coef", "a loss on texts beside GRPO's");
}

/// Without --pretrain Coati makes a family's default model.
std::string default_model(const std::string& family) {
  if (family == "gpt2") return "gpt2";
  if (family == "opt") return "facebook/opt-125m";
  return {};
}

void find_models(Values& v, Settings& s, const JobOptions& options, const std::string& base) {
  if (v.failed()) return;
  const bool sizes = s.program == Program::benchmark;
  if (!options.model.empty()) s.pretrain = options.model;
  if (s.pretrain.empty() && s.coati()) s.pretrain = default_model(s.family);
  const std::string key = sizes ? "model" : "pretrain";
  if (s.pretrain.empty()) return v.fail_at(key, "no model is given; name it here or with --model");
  const auto find = [&](const std::string& name, const std::string& at, HeadKind head) {
    ModelRequest request;
    request.name = sizes && options.model.empty() ? "facebook/opt-" + name : name;
    request.base = base;
    request.head = head;
    request.values = options.stated_model(name);
    return settings::model_at(v, at, request);
  };
  s.model = find(s.pretrain, key, s.program == Program::rm ? HeadKind::scalar : HeadKind::language_model);
  if (!s.has_critic() && !s.has_reward()) return;
  if (sizes) {
    s.reward_pretrain = s.critic_size;
    s.critic_model = find(s.critic_size, "critic_model", HeadKind::scalar);
    return;
  }
  if (s.reward_pretrain.empty() && s.coati())
    s.reward_pretrain = default_model(s.reward_family.empty() ? s.family : s.reward_family);
  if (s.reward_pretrain.empty()) return v.fail_at("rm_pretrain", "no reward model is given; name it here");
  s.critic_model = find(s.reward_pretrain, "rm_pretrain", HeadKind::scalar);
}

Status read_launcher(Settings& s, const shell::Launch& launch, const JobOptions& options) {
  std::optional<std::int64_t> nodes = options.nodes, gpus = options.gpus_per_node;
  if (!gpus) {
    HEADROOM_ASSIGN(gpus, shell::runner_count(launch, {"--nproc_per_node", "--nproc-per-node"}));
  }
  if (!nodes) {
    HEADROOM_ASSIGN(nodes, shell::runner_count(launch, {"--nnodes"}));
  }
  s.gpus = gpus.value_or(s.gpus);
  s.nodes = nodes.value_or(s.nodes);
  if (launch.runner_option({"--hostfile"}) != nullptr && launch.runner_option({"--nnodes"}) == nullptr)
    s.assumptions.push_back("one node: the hostfile is not read (--nodes states how many)");
  return {};
}

void assume(Settings& s, const std::string& because) {
  s.assumptions.push_back(fmt::format("ColossalAI {} ({})", to_string(s.release), because));
  if (s.coati()) s.assumptions.push_back("layers as Transformers 5 runs them, with eager attention; keys and values of "
                                         "a forward as tuples that are joined token by token");
  if (s.coati() || s.narrow()) s.assumptions.push_back("the loss scale has fallen: no update is skipped");
}

}  // namespace

bool detect(const JobInput& input) {
  return has_recorded_command(input, kRecorded) || launch_file(input) != nullptr;
}

Result<ReadJob> read(const JobInput& input, const JobOptions& options) {
  if (has_recorded_command(input, kRecorded)) {
    const RecordedCommand run = recorded_command(input, options, kRecorded);
    return read(run.input, run.options);
  }
  const JobInput::File* file = launch_file(input);
  if (file == nullptr)
    return fail(Error{.message = "expected a command or script that starts one of ColossalChat's programs",
                      .file = input.files.front().path,
                      .key = {}});
  const Known& program = *known(*file->launch);
  auto made = std::make_shared<Settings>();
  Settings& s = *made;
  s.program = program.program;
  const std::vector<settings::Key> keys = keys_of(s.program);
  HEADROOM_ASSIGN(settings::Arguments arguments, settings::read_arguments(*file->launch, keys, options));
  Layers& layers = arguments.layers;
  {
    Values early(layers);
    s.versions = settings::stated_versions(early, options, "colossalai");
    HEADROOM_TRY(early.status());
  }
  std::string because = "stated";
  const bool coati = program.coati && (!program.boosted || (layers.given("strategy") || !layers.given("plugin")));
  if (s.versions.framework.empty())
    s.release = infer_release(layers, coati, s.program, because);
  else
    s.release = *parse_version(s.versions.framework);
  s.versions.framework = to_string(s.release);
  // As ColossalAI's requirements pin it.
  if (s.versions.transformers.empty())
    s.versions.transformers = s.release >= Release{0, 5, 0}   ? "4.51.3"
                              : s.release >= Release{0, 4, 0} ? "4.39.3"
                              : s.release >= kBoosted         ? "4.36.2"
                                                              : "";
  layers.set_defaults(settings::defaults(keys, s.release));
  Values values(layers);
  settings::refuse_unknown(values, keys, s.release, arguments.unknown);
  read_settings(values, s);
  HEADROOM_TRY(read_launcher(s, *file->launch, options));
  settings::take_options(s, options);
  const std::string base = fs::path(file->path).parent_path().string();
  read_lora(values, s, base);
  check(values, s);
  assume(s, because);
  find_models(values, s, options, base);
  const settings::OptionKeys option_keys{.models = {s.program == Program::benchmark ? "model" : "pretrain"},
                                         .release = "headroom.versions.colossalai",
                                         .nodes = {},
                                         .gpus_per_node = {}};
  return settings::finish(values, std::move(made),
                          {.framework = "ColossalChat",
                           .keys = keys,
                           .input = input,
                           .named_after = file->path,
                           .overrides = settings::effective_overrides(options, option_keys)},
                          [&] { return make_job(s); });
}

}  // namespace headroom::colossalchat
