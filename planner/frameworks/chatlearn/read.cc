#include "planner/frameworks/chatlearn/read.h"

#include <fmt/format.h>

#include <filesystem>

#include "planner/frameworks/chatlearn/job.h"
#include "planner/frameworks/chatlearn/rlhf/settings.h"

namespace headroom::chatlearn {
namespace {

bool has_keys(const Document& document) {
  return document.find_path("runtime_args.train_backend") != nullptr ||
         document.find_path("models.policy_trainer") != nullptr;
}

void check(Values& v, Settings& s) {
  if (s.rollout_backend != "vllm" && s.rollout_backend != "sglang")
    v.fail_at("runtime_args.rollout_backend",
              fmt::format("expected vllm or sglang, found {}", s.rollout_backend.substr(0, 80)));
  // A trainer gets whole answers only, however many episodes they took.
  if (s.partial_rollout)
    v.warn_at("runtime_args.use_partial_rollout", "memory is that of whole answers; seconds of generation are those of "
                                                  "answers that end in the episode that began them");
  if (s.model_type != "llm") settings::leave_unmodelled(v, s, "runtime_args.model_type", "what pictures take");
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
  for (auto [model, key] : models) {
    if (!options.model.empty()) model->load = options.model;
    // Megatron's models are built from the engine's configuration; what they load is a checkpoint without one.
    if (s.megatron && model != &s.policy && options.model.empty() && !s.policy.load.empty()) {
      model->load = s.policy.load;
      key = "models.policy.load";
    }
    if (model->load.empty()) return v.fail_at(key, "no model is given; name it here or with --model");
    ModelRequest request;
    request.name = model->load;
    request.base = base;
    model->architecture = settings::model_at(v, key, request);
    if (model->architecture == nullptr) return;
  }
}

const settings::OptionKeys kOptions{
    .models = {"models.policy_trainer.load", "models.ref_policy.load", "models.policy.load"},
    .release = "headroom.versions.chatlearn",
    .nodes = {},
    .gpus_per_node = "headroom.gpus_per_node"};

}  // namespace

bool detect(const JobInput& input) {
  for (const JobInput::File& file : input.files) {
    if (file.document.is_map() && has_keys(file.document)) return true;
    if (file.document.is_scalar() && file.text.find("models.policy_trainer.") != std::string::npos)
      return true;
  }
  return rlhf::detect(input);
}

Result<ReadJob> read(const JobInput& input, const JobOptions& options) {
  if (rlhf::detect(input)) return rlhf::read(input, options);
  HEADROOM_ASSIGN(Layers layers, settings::lay_files(input, options, "a map of ChatLearn's keys at the top"));
  auto made = std::make_shared<Settings>();
  Settings& s = *made;
  {
    Values early(layers);
    s.versions = settings::stated_versions(early, options, "chatlearn");
    if (s.versions.vllm.empty()) s.versions.vllm = "0.10.0";
    if (s.versions.torch.empty()) s.versions.torch = "2.7.1";
    const std::string backend = early.word("runtime_args.train_backend", {"fsdp", "megatron"}, "");
    if (backend.empty())
      early.fail_at("runtime_args.train_backend", "is mandatory: expected fsdp or megatron");
    HEADROOM_TRY(early.status());
    s.megatron = backend == "megatron";
  }
  s.release = parse_version(s.versions.framework).value_or(kNewest);
  if (s.versions.framework.empty()) s.assumptions.push_back("ChatLearn after 1.2 (no key tells)");
  layers.set_defaults(settings::defaults(keys_of(s), s.release));
  Values values(layers);
  read_settings(values, s);
  settings::take_options(s, options);
  if (options.gpus_per_node) s.gpus_per_node = *options.gpus_per_node;
  if (options.nodes)
    for (Model* model : {&s.trainer, &s.reference, &s.policy}) model->gpus = *options.nodes * s.gpus_per_node;
  check(values, s);
  find_models(values, s, options, std::filesystem::path(input.files.front().path).parent_path().string());
  return settings::finish(values, std::move(made),
                          {.framework = "ChatLearn",
                           .keys = keys_of(s),
                           .input = input,
                           .named_after = input.files.back().path,
                           .overrides = settings::effective_overrides(options, kOptions)},
                          [&] { return make_job(s); });
}

}  // namespace headroom::chatlearn
