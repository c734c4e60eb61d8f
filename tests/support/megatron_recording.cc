#include "tests/support/megatron_recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "models/architecture/read.h"
#include "models/document/document.h"
#include "simulator/hardware/library.h"
#include "simulator/job/actions.h"
#include "simulator/phases/simulate.h"

namespace headroom::test {
namespace {

using Json = nlohmann::json;

Result<std::shared_ptr<const Architecture>> architecture_of(const Json& config) {
  const bool qwen = config.value("add_qkv_bias", false), experts = config.contains("num_moe_experts");
  Json out = {{"model_type", qwen      ? "qwen2"
                             : experts ? "mixtral"
                                       : "llama"},
              {"vocab_size", config.at("vocab_size")},
              {"hidden_size", config.at("hidden_size")},
              {"intermediate_size", config.at("ffn_hidden_size")},
              {"num_hidden_layers", config.at("num_layers")},
              {"num_attention_heads", config.at("num_attention_heads")},
              {"num_key_value_heads", config.at("num_query_groups")},
              {"head_dim", config.at("kv_channels")},
              {"tie_word_embeddings", config.at("tied")},
              {"max_position_embeddings", 32768},
              {"hidden_act", "silu"}};
  if (experts) {
    out["num_local_experts"] = config.at("num_moe_experts");
    out["num_experts_per_tok"] = config.at("moe_router_topk");
    out["sliding_window"] = nullptr;
  }
  HEADROOM_ASSIGN(const Document document, parse_document(out.dump(), "config"));
  HEADROOM_ASSIGN(Architecture model, make_architecture(document, "config"));
  return std::make_shared<const Architecture>(std::move(model));
}

Recompute recompute_of(const Json& config) {
  Recompute out;
  const std::string kind = config.value("recompute_granularity", "none");
  if (kind == "full") {
    out.kind = RecomputeKind::full;
    (config.at("recompute_method") == "block" ? out.layers : out.every) = config.at("recompute_num_layers");
  } else if (kind == "selective") {
    out.kind = RecomputeKind::selective;
    out.modules = config.at("recompute_modules").get<std::vector<std::string>>();
  }
  return out;
}

Role role_of(const Json& of, const Json& config) {
  const Json ddp = of.value("ddp", Json::object()), optimizer = of.value("optimizer", Json::object());
  const bool rl = of.value("loss", "lm") == "rl";
  Role role;
  role.name = "actor";
  role.trained = role.packed = true;
  const DType gradients = ddp.value("grad_reduce_in_fp32", true) ? DType::fp32 : DType::bf16;
  role.precision.master = DType::fp32;
  role.precision.gradients = role.precision.reduce = gradients;
  role.parallel = {.tensor = config.at("tensor_model_parallel_size"),
                   .pipeline = config.at("pipeline_model_parallel_size"),
                   .virtual_pipeline = config.value("virtual_pipeline_model_parallel_size", 1),
                   .context = config.at("context_parallel_size"),
                   .expert = config.at("expert_model_parallel_size"),
                   .expert_tensor = config.value("expert_tensor_parallel_size", 0),
                   .sequence = config.at("sequence_parallel")};
  role.sharding.kind = ShardingKind::megatron;
  role.sharding.distributed_optimizer = ddp.value("use_distributed_optimizer", true);
  role.megatron.layers = MegatronLayers::local;
  role.megatron.gradient_accumulation_fusion = config.at("gradient_accumulation_fusion");
  role.megatron.fused_activation = config.at("bias_activation_fusion");
  role.megatron.deallocates_outputs = config.at("deallocate_pipeline_outputs");
  role.megatron.context_all_to_all = role.parallel.context > 1;
  role.megatron.fused_cross_entropy = config.value("cross_entropy_loss_fusion", false);
  role.megatron.overlaps_gradients = ddp.value("overlap_grad_reduce", false);
  role.megatron.wraps_on_own_stream = of.value("wrap_stream", true);
  role.recompute = recompute_of(config);
  role.loss.logits_fp32 = rl;
  role.loss.token_logprob = TokenLogprob::cross_entropy;
  role.attention = of.value("attention", "flash") == "local" ? AttentionImplementation::eager
                                                             : AttentionImplementation::flash;
  role.optimizer.implementation = of.value("adam", "fused") == "fused" ? OptimizerImplementation::fused
                                                                       : OptimizerImplementation::foreach_;
  if (optimizer.value("optimizer_cpu_offload", false))
    role.optimizer.cpu_fraction = optimizer.at("optimizer_offload_fraction");
  role.train.sequences = role.forward.sequences = config.at("micro_batch_size");
  return role;
}

Result<Job> job_of(const Json& run) {
  const Json& of = run.at("case");
  const Json& config = run.at("config");
  Job job;
  Role role = role_of(of, config);
  HEADROOM_ASSIGN(role.model, architecture_of(config));
  job.roles = {role};
  job.versions.torch = "2.11.0";
  job.pools = {{.name = "main", .nodes = 1, .gpus_per_node = run.at("world")}};
  const std::int64_t length = config.at("sequence_length");
  job.batch.prompts = config.at("micro_batch_size").get<std::int64_t>() *
                      config.at("micro_batches").get<std::int64_t>() *
                      config.at("data_parallel").get<std::int64_t>();
  job.batch.prompt_length = length / 2;
  job.batch.response_length = length - length / 2;
  Process process;
  process.name = "trainer";
  process.roles = {"actor"};
  process.allocator_settings = run.at("settings");
  job.processes = {process};
  job.start = {make_phase(PhaseKind::init, {role_action(Verb::build, "actor")}, "wrap_ddp"),
               make_phase(PhaseKind::init, {role_action(Verb::build_optimizer, "actor")}, "init_optimizer")};
  const Json ddp = of.value("ddp", Json::object());
  if (of.value("logprob", true) && !ddp.value("overlap_param_gather", false))
    job.step.push_back(
        make_phase(PhaseKind::actor_logprob, {role_action(Verb::forward, "actor")}, "logprob"));
  job.step.push_back(make_phase(PhaseKind::train_actor, {role_action(Verb::train, "actor")}, "train"));
  if (of.value("offload", false)) {
    const unsigned states = kOptimizer | kMasterWeights;
    job.step.push_back(make_phase(
        PhaseKind::sleep,
        {parts_action(Verb::offload, "actor", kWeights), parts_action(Verb::release, "actor", kGradients),
         parts_action(Verb::offload, "actor", states), role_action(Verb::empty_cache, "actor")},
        "offload"));
    job.step.push_back(
        make_phase(PhaseKind::load,
                   {parts_action(Verb::load, "actor", kWeights | kGradients),
                    parts_action(Verb::load, "actor", states), role_action(Verb::empty_cache, "actor")},
                   "reload"));
  }
  job.steps = 3;
  return job;
}

double off(Bytes predicted, Bytes recorded) {
  return static_cast<double>(predicted - recorded) / static_cast<double>(std::max<Bytes>(recorded, 1));
}

}  // namespace

Result<std::vector<MegatronRecording>> megatron_recordings(const std::filesystem::path& file) {
  std::ifstream stream(file);
  const Json all = Json::parse(stream, nullptr, false);
  if (!all.is_array()) return fail(fmt::format("{}: expected an array of recordings", file.string()));
  std::vector<MegatronRecording> out;
  for (const Json& run : all) {
    MegatronRecording& one = out.emplace_back();
    one.name = run.at("name");
    one.rank = run.at("rank");
    one.world = run.at("world");
    one.current_stream = !run.at("case").value("wrap_stream", true);
    one.exchange = run.at("config").at("context_parallel_size") > 1;
    one.buckets = run.at("buckets").get<std::vector<std::int64_t>>();
    for (const Json& buffer : run.at("buffers")) one.buffers.emplace_back(buffer[0], buffer[1]);
    for (const Json& row : run.at("phases"))
      one.rows.push_back({row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7]});
    HEADROOM_ASSIGN(one.job, job_of(run));
  }
  return out;
}

static Result<DeviceReport> device_of(const MegatronRecording& recording, const Hardware& hardware) {
  HEADROOM_ASSIGN(Report report, simulate(recording.job, hardware));
  for (DeviceReport& device : report.devices)
    if (device.device <= recording.rank && recording.rank < device.device + device.alike) return std::move(device);
  return fail("no GPU of that rank");
}

Result<std::vector<MegatronSeconds>> megatron_seconds(const MegatronRecording& recording, const Hardware& hardware) {
  HEADROOM_ASSIGN(const DeviceReport device, device_of(recording, hardware));
  std::map<std::string, std::map<int, double>> measured;
  for (const MegatronRow& row : recording.rows)
    if (row.step > 0)
      measured[row.phase == "forward_backward" || row.phase == "optimizer_step" ? "train" : row.phase][row.step] +=
          row.seconds;
  std::vector<MegatronSeconds> out;
  for (const PhaseReport& phase : device.phases) {
    const auto found = measured.find(phase.phase);
    if (phase.step != 2 || found == measured.end()) continue;
    double least = found->second.begin()->second;
    for (const auto& [step, seconds] : found->second) least = std::min(least, seconds);
    out.push_back({phase.phase, phase.seconds, least});
  }
  return out;
}

Result<std::vector<MegatronErrors>> megatron_errors(const MegatronRecording& recording) {
  HEADROOM_ASSIGN(const Hardware hardware, find_hardware("H200"));
  HEADROOM_ASSIGN(const DeviceReport here, device_of(recording, hardware));
  std::vector<MegatronErrors> out;
  for (const PhaseReport& phase : here.phases) {
    if (phase.step == 0) continue;
    const ProcessPhase& predicted = phase.processes.front();
    MegatronRow truth;
    for (const MegatronRow& row : recording.rows) {
      const bool training =
          phase.phase == "train" && (row.phase == "forward_backward" || row.phase == "optimizer_step");
      if (row.step != phase.step || (row.phase != phase.phase && !training)) continue;
      truth.peak_allocated = std::max(truth.peak_allocated, row.peak_allocated);
      truth.peak_reserved = std::max(truth.peak_reserved, row.peak_reserved);
      truth.allocated_end = row.allocated_end;
      truth.reserved_end = row.reserved_end;
      truth.process_end = row.process_end;
    }
    if (truth.peak_allocated == 0) continue;
    out.push_back({phase.step, phase.phase, off(predicted.peak_allocated, truth.peak_allocated),
                   off(predicted.allocated_end, truth.allocated_end),
                   off(predicted.peak_reserved, truth.peak_reserved),
                   off(predicted.outside, truth.process_end - truth.reserved_end)});
  }
  return out;
}

}  // namespace headroom::test
