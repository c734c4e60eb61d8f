#include <fmt/format.h>

#include "planner/frameworks/verl/sections.h"
#include "planner/frameworks/verl/settings_reader.h"

namespace headroom::verl {
namespace {

const std::string kDistillation = "distillation.";
const std::string kTeachers = kDistillation + "teacher_models";
/// The only teacher of the default configuration; beside others it is dropped.
constexpr const char* kDefaultTeacher = "teacher_model";

}  // namespace

void SettingsReader::distillation() {
  if (!v_.flag(kDistillation + "enabled")) return;
  const std::string loss = kDistillation + "distillation_loss.";
  const std::string mode = v_.text(loss + "loss_mode", "k3");
  const bool policy_gradient = v_.flag(loss + "use_policy_gradient");
  if (policy_gradient && mode == "forward_kl_topk")
    v_.fail_at(loss + "loss_mode", "expected an estimator (k1, k3 …) with use_policy_gradient, found forward_kl_topk");
  if (!policy_gradient && mode == "k1")
    v_.fail_at(loss + "loss_mode", "expected use_policy_gradient=true with k1, whose gradient is none of the divergence's");
  // Estimators work on the tokens' log-probs, which are there anyway; a divergence over top-k makes them all once more.
  if (mode.ends_with("_topk")) not_modelled(loss + "loss_mode", mode);
  s_.teacher_gpus = v_.integer(kDistillation + "nnodes", 0, 1'000'000, 0) *
                    v_.integer(kDistillation + "n_gpus_per_node", 0, 1024, 8);
  const Document named = v_.tree(kTeachers);
  std::vector<std::string> names;
  for (const auto& [name, settings] : named.entries())
    if (name != kDefaultTeacher) names.push_back(name);
  if (names.empty()) names.emplace_back(kDefaultTeacher);
  for (const std::string& name : names) s_.teachers.push_back(teacher(name));
}

Teacher SettingsReader::teacher(const std::string& name) {
  Teacher out;
  const bool alone = name == kDefaultTeacher;
  out.name = alone ? "teacher" : "teacher_" + name;
  out.key = kTeachers + "." + name;
  out.path = v_.text(out.key + ".model_path");
  const std::string at = out.key + ".inference.";
  EngineSettings& e = out.engine;
  e.exists = true;
  e.name = v_.word(at + "name", {"vllm", "sglang"}, s_.rollout.name == "sglang" ? "sglang" : "vllm");
  e.dtype = v_.dtype(at + "dtype", s_.rollout.dtype);
  e.gpu_memory_utilization = v_.number(at + "gpu_memory_utilization", 0, 1, 0.5);
  e.tensor = v_.integer(at + "tensor_model_parallel_size", 1, kMost, 2);
  e.data = v_.integer(at + "data_parallel_size", 1, kMost, 1);
  e.pipeline = v_.integer(at + "pipeline_model_parallel_size", 1, kMost, 1);
  e.expert = v_.integer(at + "expert_parallel_size", 1, kMost, 1);
  e.enforce_eager = v_.flag(at + "enforce_eager", true);
  e.max_num_seqs = v_.integer(at + "max_num_seqs", 1, kMost, s_.rollout.max_num_seqs);
  e.max_num_batched_tokens = v_.integer(at + "max_num_batched_tokens", 1, kMost, 8192);
  e.max_model_len = v_.optional_integer(at + "max_model_len", 1, kMost);
  e.prompt_length = s_.prompt_length + s_.response_length;  // it reads what the actor wrote
  e.response_length = 1;
  e.load_format = "auto";
  const std::int64_t replica = e.tensor * e.data * e.pipeline;
  const std::int64_t replicas = v_.integer(out.key + ".num_replicas", 0, kMost, 0);
  const std::int64_t gpus = alone ? s_.teacher_gpus : replicas * replica;
  const std::int64_t in_a_node = std::max<std::int64_t>(1, v_.integer(kDistillation + "n_gpus_per_node", 0, 1024, 8));
  e.nodes = std::max<std::int64_t>(1, (gpus + in_a_node - 1) / in_a_node);
  e.gpus_per_node = gpus / e.nodes;
  return out;
}

}  // namespace headroom::verl
