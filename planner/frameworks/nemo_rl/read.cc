#include "planner/frameworks/nemo_rl/read.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <iterator>

#include "planner/configuration/override.h"
#include "planner/frameworks/nemo_rl/aliases.h"
#include "planner/frameworks/nemo_rl/job.h"
#include "planner/frameworks/nemo_rl/parents.h"
#include "planner/frameworks/nemo_rl/recording.h"
#include "planner/frameworks/nemo_rl/release.h"

namespace headroom::nemo_rl {
namespace {

constexpr std::array<std::string_view, 6> kAlgorithms = {"grpo", "ppo", "dpo", "sft", "rm", "distillation"};

/// Which algorithm's section the files have: the child's before its parents'.
Result<Algorithm> algorithm_of(const Layers& layers, const JobInput& input) {
  for (const JobInput::File& file : input.files)
    for (std::size_t i = 0; i < kAlgorithms.size(); ++i)
      if (file.document.find(kAlgorithms[i]) != nullptr) return static_cast<Algorithm>(i);
  for (std::size_t i = 0; i < kAlgorithms.size(); ++i)
    if (layers.given(kAlgorithms[i])) return static_cast<Algorithm>(i);
  return fail(Error{.message = fmt::format("NeMo RL: expected a section of an algorithm ({}), found none",
                                           fmt::join(kAlgorithms, ", ")),
                    .file = input.files.empty() ? "" : input.files.back().path,
                    .key = {}});
}

void check_words(Values& v, Settings& s) {
  const auto not_modelled = [&](const std::string& key, const std::string& what) {
    settings::leave_unmodelled(v, s, key, what);
  };
  const auto precision = [&](const Policy& p, const std::string& at) {
    const auto type = parse_dtype(p.precision);
    if (!type || (*type != DType::bf16 && *type != DType::fp16 && *type != DType::fp32))
      v.fail_at(at + "precision",
                fmt::format("expected bfloat16, float16 or float32, found {}", p.precision.substr(0, 80)));
    if (p.dtensor.enabled && p.optimizer.find("AdamW") == std::string::npos &&
        p.optimizer.find("Adam") == std::string::npos)
      not_modelled(at + "optimizer.name", "the optimizer " + p.optimizer.substr(0, 80));
    if (p.megatron.enabled && p.megatron.optimizer != "adam" && p.megatron.optimizer != "sgd")
      not_modelled(at + "megatron_cfg.optimizer.optimizer",
                   "the optimizer " + p.megatron.optimizer.substr(0, 80));
    if (p.megatron.enabled && p.megatron.granularity != "full" && p.megatron.granularity != "selective")
      v.fail_at(at + "megatron_cfg.recompute_granularity",
                fmt::format("expected full or selective, found {}", p.megatron.granularity.substr(0, 80)));
    if (p.megatron.enabled && (p.megatron.deepep || p.megatron.dispatcher == "flex"))
      s.assumptions.push_back(at + "megatron_cfg.moe_enable_deepep: DeepEP's own buffers are not counted");
    if (p.dtensor.deals_experts())
      s.assumptions.push_back(at +
                              "dtensor_cfg.expert_parallel_size: experts get their tokens through DeepEP, whose own "
                              "buffers are not counted; weights and Adam's states are bfloat16, as Automodel "
                              "initialises its own mixtures");
  };
  precision(s.policy, "policy.");
  if (s.algorithm == Algorithm::ppo) precision(s.value, "value.");
  if (s.algorithm == Algorithm::distillation) precision(s.teacher, "teacher.");
  if (v.flag("data_plane.enabled"))
    s.assumptions.push_back("data_plane: rollouts lie in host memory of their own, which is not counted");
  for (const char* set : {"data.default.processor", "data.train.processor"})
    if (v.text(set).find("vlm") != std::string::npos) not_modelled(set, "what pictures take in the policy");
  if (!s.generates()) return;
  if (!v.text("policy.generation.refit_transport").empty())
    s.assumptions.push_back(
        "policy.generation.refit_transport: a refit is taken to gather the weights as usual");
  const std::string key = "policy.generation.backend";
  const std::string& backend = s.policy.generation.backend;
  if (backend == "dynamo" && !s.policy.generation.colocated)
    s.assumptions.push_back(key + ": Dynamo's workers are vLLM's engines, with the settings of policy.generation.vllm_cfg");
  else if (backend == "megatron" || backend == "trtllm" || backend == "dynamo" || backend == "hf")
    not_modelled(key, "generation by " + backend);
  else if (backend != "vllm" && backend != "sglang")
    v.fail_at(key, fmt::format("expected vllm, sglang or megatron, found {}", backend.substr(0, 80)));
  if (s.async && s.policy.generation.colocated)
    not_modelled("policy.generation.colocated.enabled", "asynchronous training on the GPUs that generate");
}

void find_models(Values& v, Settings& s, const JobOptions& options, const std::string& base) {
  if (v.failed()) return;
  if (!options.model.empty()) s.policy.model = options.model;
  if (s.policy.model.empty())
    return v.fail_at("policy.model_name", "no model is given; name it here or with --model");
  const auto find = [&](Policy& p, const std::string& at, HeadKind head) {
    ModelRequest request;
    request.name = p.model;
    request.base = base;
    request.head = head;
    request.overrides = v.tree(at + "hf_config_overrides");
    if (options.model.empty() && &p == &s.policy)
      if (auto stated = settings::stated_model(v, head)) {
        p.architecture = std::move(stated);
        return;
      }
    p.architecture = settings::model_at(v, at + "model_name", request);
    // nemo_rl/models/dtensor/parallelize.py: plain MLPs and the head are cut, mixers and experts are not.
    if (p.architecture != nullptr && !p.runs_megatron() && p.dtensor.tensor > 1 &&
        p.architecture->family.starts_with("nemotron_h"))
      settings::leave_unmodelled(v, s, at + "dtensor_cfg.tensor_parallel_size",
                                 "Nemotron-H's mixers, which stay whole on every tensor rank");
  };
  find(s.policy, "policy.",
       s.algorithm == Algorithm::rm ? HeadKind::sequence_classification : HeadKind::language_model);
  if (s.algorithm == Algorithm::ppo) {
    if (s.value.model.empty()) s.value.model = s.policy.model;
    find(s.value, "value.", HeadKind::token_classification);
  }
  if (s.algorithm == Algorithm::distillation) {
    if (s.teacher.model.empty())
      return v.fail_at("teacher.model_name", "expected the teacher's model, found none");
    find(s.teacher, "teacher.", HeadKind::language_model);
  }
}

/// Hydra changes keys that the files have; another one needs `+` or `++`.
void warn_of_new_keys(Values& values, const Layers& files, const JobOptions& options) {
  for (const std::string& text : options.overrides) {
    const Result<Override> change = parse_override(text, "--set");
    if (change && change->kind == Override::Kind::set && !files.given(change->key))
      values.warn_at(change->key,
                     fmt::format("is in none of the files: NeMo RL takes it as ++{} only", change->key));
  }
}

const settings::OptionKeys kOptions{.models = {"policy.model_name"},
                                    .release = "headroom.versions.nemo_rl",
                                    .nodes = "cluster.num_nodes",
                                    .gpus_per_node = "cluster.gpus_per_node"};

bool has_keys(const Document& document) {
  constexpr std::array<std::string_view, 6> kOwn = {"policy.dtensor_cfg",
                                                    "policy.megatron_cfg",
                                                    "policy.train_global_batch_size",
                                                    "policy.generation",
                                                    "policy.max_total_sequence_length",
                                                    "grpo.num_prompts_per_step"};
  for (std::string_view key : kOwn)
    if (document.find_path(key) != nullptr) return true;
  const Document* parents = document.find("defaults");
  if (parents == nullptr) return false;
  const Document& first =
      parents->is_list() && !parents->items().empty() ? parents->items().front() : *parents;
  // Hydra's lists name groups, not files.
  return first.is_scalar() && (first.text().ends_with(".yaml") || first.text().ends_with(".yml"));
}

}  // namespace

bool detect(const JobInput& input) {
  if (has_recording(input)) return true;
  for (const JobInput::File& file : input.files) {
    if (file.document.is_map() && has_keys(file.document)) return true;
    if (file.document.is_scalar())
      for (const char* key : {"policy.dtensor_cfg.", "policy.megatron_cfg.", "policy.generation.vllm_cfg."})
        if (file.text.find(key) != std::string::npos) return true;
  }
  return false;
}

Result<ReadJob> read(const JobInput& given, const JobOptions& options) {
  const JobInput input = without_recordings(given);
  JobOptions without = options;
  without.overrides.clear();
  HEADROOM_ASSIGN(Layers layers, lay_parents(input, options));
  HEADROOM_ASSIGN(const Layers files, lay_parents(input, without));
  HEADROOM_ASSIGN(std::vector<Notice> renamed, replace_aliases(layers));
  if (layers.given("teachers")) {
    Error unread{.message = "NeMo RL: distillation from several tokenizers or teachers is not read yet",
                 .file = {},
                 .key = "teachers"};
    layers.locate("teachers", unread.file, unread.line);
    return fail(std::move(unread));
  }
  auto made = std::make_shared<Settings>();
  Settings& s = *made;
  HEADROOM_ASSIGN(s.algorithm, algorithm_of(layers, input));
  {
    Values early(layers);
    s.versions = settings::stated_versions(early, options, "nemo_rl", "main");
    HEADROOM_TRY(early.status());
  }
  HEADROOM_TRY(settings::state(layers, kOptions.nodes, options.nodes));
  HEADROOM_TRY(settings::state(layers, kOptions.gpus_per_node, options.gpus_per_node));
  const InferredRelease inferred = infer_release(layers);
  if (s.versions.framework.empty()) {
    s.release = inferred.release;
    s.assumptions.push_back(
        fmt::format("NeMo RL {}{}", s.release >= kHead ? "main" : to_string(s.release),
                    inferred.because.empty() ? " (no key tells)"
                                             : fmt::format(" (its files have {})", inferred.because)));
  } else {
    s.release = s.versions.framework == "main" ? kHead : *parse_version(s.versions.framework);
  }
  // Both backends' rows count for defaults, whichever runs.
  s.policy.megatron.enabled = s.value.megatron.enabled = s.teacher.megatron.enabled = true;
  layers.set_defaults(settings::defaults(keys_of(s), s.release));
  s.policy.megatron.enabled = s.value.megatron.enabled = s.teacher.megatron.enabled = false;
  Values values(layers);
  complete_versions(s.release, s.versions);
  read_settings(values, s);
  settings::take_options(s, options);
  if (options.nodes) s.nodes = *options.nodes;
  if (options.gpus_per_node) s.gpus_per_node = *options.gpus_per_node;
  // A recorder hands the worker buffers of the size that its case states, whatever the release reads.
  if (has_recording(given)) s.policy.refit_buffer_gb = values.number("policy.refit_buffer_size_gb", 0, 1e6, 0);
  check_words(values, s);
  find_models(values, s, options, std::filesystem::path(input.files.front().path).parent_path().string());
  warn_of_new_keys(values, files, options);
  HEADROOM_ASSIGN(ReadJob out,
                  settings::finish(values, std::move(made),
                                   {.framework = "NeMo RL",
                                    .keys = keys_of(s),
                                    .input = input,
                                    .named_after = input.files.back().path,
                                    .overrides = settings::effective_overrides(options, kOptions)},
                                   [&] { return make_job(s); }));
  out.warnings.insert(out.warnings.begin(), std::make_move_iterator(renamed.begin()),
                      std::make_move_iterator(renamed.end()));
  if (has_recording(given)) out.job.lengths.listed = recorded_batches(given, s);
  return out;
}

}  // namespace headroom::nemo_rl
