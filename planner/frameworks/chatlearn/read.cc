#include "planner/frameworks/chatlearn/read.h"

#include <fmt/format.h>

#include <filesystem>

#include "planner/configuration/model_lookup.h"
#include "planner/configuration/override.h"
#include "planner/configuration/value_grammar.h"
#include "planner/frameworks/chatlearn/job.h"
#include "planner/frameworks/settings/usage.h"
#include "simulator/hardware/library.h"

namespace headroom::chatlearn {
namespace {

bool has_old_keys(const Document& document) {
  return document.find("runtime_env") != nullptr ||
         (document.find("models") != nullptr &&
          (document.find("runtime") != nullptr || document.find("rlhf") != nullptr));
}

bool has_keys(const Document& document) {
  return document.find_path("runtime_args.train_backend") != nullptr ||
         document.find_path("models.policy_trainer") != nullptr;
}

Result<Layers> lay(const JobInput& input, const JobOptions& options) {
  Layers layers;
  for (const JobInput::File& file : input.files) {
    if (file.document.is_scalar()) {
      HEADROOM_ASSIGN(const std::vector<Override> list, parse_override_list(file.text, file.path));
      for (const Override& change : list) HEADROOM_TRY(layers.apply(change));
      continue;
    }
    if (!file.document.is_map())
      return fail(Error{.message = "expected a map of ChatLearn's keys at the top",
                        .file = file.path,
                        .line = file.document.line(),
                        .key = {}});
    layers.add_file(file.path, file.document);
  }
  for (const std::string& text : options.overrides) {
    HEADROOM_ASSIGN(const Override change, parse_override(text, "--set"));
    HEADROOM_TRY(layers.apply(change));
  }
  layers.set_environment(options.environment);
  return layers;
}

void check(Values& v, Settings& s) {
  const auto open = [&](const std::string& key, const std::string& what) {
    v.warn_at(key, what + " is not modelled: the verdict is undetermined");
    s.not_modelled.push_back(key + ": " + what);
  };
  if (s.rollout_backend != "vllm" && s.rollout_backend != "sglang")
    v.fail_at("runtime_args.rollout_backend",
              fmt::format("expected vllm or sglang, found {}", s.rollout_backend.substr(0, 80)));
  if (s.model_type != "llm") open("runtime_args.model_type", "what pictures take");
  if (s.trainer.granularity != "" && s.trainer.granularity != "full" && s.trainer.granularity != "selective")
    v.fail_at("models.policy_trainer.recompute_granularity",
              fmt::format("expected full or selective, found {}", s.trainer.granularity.substr(0, 80)));
  for (const auto& [model, name] :
       {std::pair{&s.trainer, "policy_trainer"}, std::pair{&s.reference, "ref_policy"}})
    if (!s.colocated(name) && (model->free.weights || model->free.optimizer || model->free.gradients))
      v.without_effect(fmt::format("models.{}.free_gpu_memory.offload_weights", name),
                       "a model that shares its GPUs with none frees nothing");
}

void find_models(Values& v, Settings& s, const JobOptions& options, const std::string& base) {
  if (v.failed()) return;
  const std::pair<Model*, const char*> models[] = {{&s.trainer, "models.policy_trainer.load"},
                                                   {&s.reference, "models.ref_policy.load"},
                                                   {&s.policy, "models.policy.load"}};
  for (const auto& [model, key] : models) {
    if (!options.model.empty()) model->load = options.model;
    if (model->load.empty()) return v.fail_at(key, "no model is given; name it here or with --model");
    ModelRequest request;
    request.name = model->load;
    request.base = base;
    Result<std::shared_ptr<const Architecture>> found = find_model(request);
    if (!found) return v.fail_with(std::move(found.error()), key);
    model->architecture = *found;
  }
}

std::vector<std::string> effective_overrides(const JobOptions& options) {
  std::vector<std::string> out = options.overrides;
  if (!options.model.empty())
    for (const char* key : {"models.policy_trainer.load", "models.ref_policy.load", "models.policy.load"})
      out.push_back(fmt::format("++{}={}", key, format_value(Document::scalar(options.model, 0, true))));
  if (!options.gpu.empty())
    out.push_back(fmt::format("++headroom.gpu={}", format_value(Document::scalar(options.gpu, 0, true))));
  if (options.gpus_per_node)
    out.push_back(fmt::format("++headroom.gpus_per_node={}", *options.gpus_per_node));
  if (options.resumed) out.push_back("++headroom.resumed=true");
  return out;
}

}  // namespace

bool detect(const JobInput& input) {
  for (const JobInput::File& file : input.files) {
    if (file.document.is_map() && (has_keys(file.document) || has_old_keys(file.document))) return true;
    if (file.document.is_scalar() && file.text.find("models.policy_trainer.") != std::string::npos)
      return true;
  }
  return false;
}

Result<ReadJob> read(const JobInput& input, const JobOptions& options) {
  for (const JobInput::File& file : input.files)
    if (file.document.is_map() && has_old_keys(file.document) && !has_keys(file.document))
      return fail(Error{.message =
                            "ChatLearn: the RLHF files of releases up to 1.0.3 are not read yet; expected a "
                            "GRPO run of 1.2 or later (runtime_args, models)",
                        .file = file.path,
                        .line = file.document.line(),
                        .key = {}});
  HEADROOM_ASSIGN(Layers layers, lay(input, options));
  auto made = std::make_shared<Settings>();
  Settings& s = *made;
  {
    Values early(layers);
    s.versions = options.versions;
    if (s.versions.framework.empty()) s.versions.framework = early.text("headroom.versions.chatlearn");
    if (s.versions.vllm.empty()) s.versions.vllm = early.text("headroom.versions.vllm", "0.10.0");
    if (s.versions.torch.empty()) s.versions.torch = early.text("headroom.versions.torch", "2.7.1");
    const std::string backend = early.word("runtime_args.train_backend", {"fsdp", "megatron"}, "");
    if (backend.empty())
      early.fail_at("runtime_args.train_backend", "is mandatory: expected fsdp or megatron");
    HEADROOM_TRY(early.status());
    s.megatron = backend == "megatron";
  }
  const auto stated = settings::parse_release(s.versions.framework);
  s.release = stated.value_or(kNewest);
  if (!stated) s.assumptions.push_back("ChatLearn after 1.2 (no key tells)");
  layers.set_defaults(settings::defaults(keys_of(s), s.release));
  Values values(layers);
  read_settings(values, s);
  if (!options.gpu.empty()) s.gpu = options.gpu;
  if (!s.gpu.empty())
    if (const Result<Hardware> card = load_hardware(s.gpu)) s.card = card->total_memory;
  if (options.gpus_per_node) s.gpus_per_node = *options.gpus_per_node;
  if (options.nodes)
    for (Model* model : {&s.trainer, &s.reference, &s.policy}) model->gpus = *options.nodes * s.gpus_per_node;
  if (options.steps) s.steps = *options.steps;
  s.resumed = s.resumed || options.resumed;
  check(values, s);
  find_models(values, s, options, std::filesystem::path(input.files.front().path).parent_path().string());
  ReadJob out;
  out.keys = settings::account_for_keys(values, keys_of(s), {.framework = "ChatLearn", .release = s.release},
                                        s.not_modelled);
  HEADROOM_TRY(values.status());
  for (const auto& [key, value] : values.used()) s.used.push_back(key);
  s.layers = std::make_shared<const Layers>(layers);
  Result<Job> job = make_job(s);
  if (!job) {
    const std::string key = job.error().key;
    values.fail_with(std::move(job.error()), key);
    HEADROOM_TRY(values.status());
  }
  out.job = std::move(*job);
  out.job.name = std::filesystem::path(input.files.back().path).stem().string();
  for (Notice& notice : values.take_warnings()) out.warnings.push_back(std::move(notice));
  out.input = input;
  out.overrides = effective_overrides(options);
  out.settings = std::move(made);
  return out;
}

}  // namespace headroom::chatlearn
