#include <fmt/format.h>

#include "planner/frameworks/verl/settings.h"

namespace headroom::verl {
namespace {

using Found = std::optional<Problem>;

Found problem(std::string key, std::string message) {
  return Problem{std::move(key), std::move(message)};
}

/// The first of the checks that finds something.
#define HEADROOM_VERL_CHECK(expression)           \
  do {                                            \
    if (Found found = (expression)) return found; \
  } while (false)

std::int64_t model_ranks(const Worker& worker) {
  const Megatron& m = worker.megatron;
  return worker.strategy == Strategy::megatron ? m.tensor * m.pipeline * m.context : worker.ulysses;
}

/// Query heads must be divisible by `ranks`; key/value heads by it, or it by them (then they are replicated).
Found heads(const Architecture& model, std::int64_t ranks, const std::string& key) {
  for (const LayerGroup& group : model.decoder.groups) {
    const Attention& attention = group.layer.attention;
    if (attention.heads > 0 && attention.heads % ranks != 0)
      return problem(key, fmt::format("expected a divisor of the model's {} attention heads, found {}",
                                      attention.heads, ranks));
    if (attention.kv_heads > 0 && attention.kv_heads % ranks != 0 && ranks % attention.kv_heads != 0)
      return problem(
          key, fmt::format("expected a divisor or a multiple of the model's {} key/value heads, found {}",
                           attention.kv_heads, ranks));
  }
  return {};
}

Found packing(const Settings& s, const Packing& pass, std::int64_t ulysses, const std::string& micro,
              const std::string& tokens) {
  if (!pass.dynamic) {
    if (!pass.micro) return problem(micro, "expected a size (use_dynamic_bsz is false), found null");
    return {};
  }
  const std::int64_t longest = s.prompt_length + s.response_length;
  if (pass.tokens * ulysses < longest)
    return problem(
        tokens,
        fmt::format("expected a budget that holds the longest sequence ({} tokens = prompt {} + response {}"
                    "{}), found {}",
                    longest, s.prompt_length, s.response_length,
                    ulysses > 1 ? fmt::format(", over {} sequence-parallel GPUs", ulysses) : "",
                    pass.tokens));
  return {};
}

/// The engine workers' passes without gradients take whole micro-batches only.
Found whole_batches(const Settings& s, const Packing& pass, std::int64_t ranks, const std::string& micro) {
  if (pass.dynamic || !pass.micro || !s.after(0, 9, 0)) return {};
  const std::int64_t mine = s.train_batch_size * s.n / std::max<std::int64_t>(1, ranks);
  if (mine % *pass.micro == 0) return {};
  return problem(micro, fmt::format("expected a divisor of the {} sequences that a rank has of a step, found {}",
                                    mine, *pass.micro));
}

struct Keys {
  std::string mini, micro, tokens, forward_micro, forward_tokens, ulysses, tensor;
};

Found groups(const Settings& s, const Worker& w, const Keys& keys) {
  const std::int64_t ranks = model_ranks(w);
  const std::string& key = w.strategy == Strategy::megatron ? keys.tensor : keys.ulysses;
  if (ranks > s.gpus() || s.gpus() % ranks != 0)
    return problem(key,
                   fmt::format("expected {} that divides the {} GPUs, found {}",
                               w.strategy == Strategy::megatron ? "a product of parallel sizes" : "a size",
                               s.gpus(), ranks));
  if (w.strategy == Strategy::megatron) {
    if (w.model.architecture != nullptr)
      HEADROOM_VERL_CHECK(heads(*w.model.architecture, w.megatron.tensor, keys.tensor));
    return {};
  }
  if (w.ulysses > 1) {
    if (!w.model.remove_padding)
      return problem(keys.ulysses, "sequence parallelism needs use_remove_padding=true");
    if (w.model.architecture != nullptr)
      HEADROOM_VERL_CHECK(heads(*w.model.architecture, w.ulysses, keys.ulysses));
  }
  if (w.fsdp.fsdp_size > 0 && w.fsdp.fsdp_size < s.gpus() && s.gpus() % w.fsdp.fsdp_size != 0)
    return problem("actor_rollout_ref.actor.fsdp_config.fsdp_size",
                   fmt::format("expected a divisor of the {} GPUs, found {}", s.gpus(), w.fsdp.fsdp_size));
  return {};
}

Found trained(const Settings& s, const Worker& w, const Keys& keys) {
  HEADROOM_VERL_CHECK(groups(s, w, keys));
  HEADROOM_VERL_CHECK(packing(s, w.train, w.ulysses, keys.micro, keys.tokens));
  HEADROOM_VERL_CHECK(packing(s, w.forward, w.ulysses, keys.forward_micro, keys.forward_tokens));
  const std::int64_t ranks = s.gpus() / model_ranks(w);
  const std::int64_t sequences = w.mini_batch * s.n;
  if (w.mini_batch > s.train_batch_size)
    return problem(keys.mini, fmt::format("expected at most data.train_batch_size ({} prompts), found {}",
                                          s.train_batch_size, w.mini_batch));
  // Workers of releases before 0.8 round a rank's share down and only ask that something is left.
  const bool rounds = !s.after(0, 8, 0) && sequences >= ranks;
  if (sequences % ranks != 0 && !rounds)
    return problem(
        keys.mini,
        fmt::format(
            "expected a mini-batch whose {} sequences (x rollout.n = {}) divide over {} data-parallel "
            "ranks, found {}",
            sequences, s.n, ranks, w.mini_batch));
  const bool one_piece = s.before_checks && sequences / ranks < w.train.micro.value_or(0);
  if (!w.train.dynamic && !one_piece && (sequences / ranks) % *w.train.micro != 0)
    return problem(
        keys.micro,
        fmt::format("expected a divisor of the {} sequences that a rank has of a mini-batch, found {}",
                    sequences / ranks, *w.train.micro));
  return {};
}

Found engine(const Settings& s, const EngineSettings& e, const Architecture* model, const std::string& at) {
  const std::int64_t gpus = e.nodes > 0 ? e.nodes * e.gpus_per_node : s.gpus();
  const std::int64_t replica = e.tensor * e.data * e.pipeline;
  if (gpus < 1) return problem(at + "n_gpus_per_node", "expected at least one GPU, found 0");
  if (replica > gpus || gpus % replica != 0)
    return problem(
        at + "tensor_model_parallel_size",
        fmt::format("expected an engine (tensor x data x pipeline) whose size divides the {} GPUs, found {}",
                    gpus, replica));
  if (e.name != "trtllm" && e.expert > 1 && e.expert != e.tensor * e.data)
    return problem(
        at + "expert_parallel_size",
        fmt::format("expected tensor x data parallel size ({}), found {}", e.tensor * e.data, e.expert));
  if (e.pipeline > 1 && s.after(0, 9, 0))
    return problem(at + "pipeline_model_parallel_size",
                   "expected 1 (this release serves without pipeline parallelism)");
  if (model == nullptr) return {};
  HEADROOM_VERL_CHECK(heads(*model, e.tensor, at + "tensor_model_parallel_size"));
  // Until 0.7 the engine is told prompt + response, and refuses more than the model has; later it is told the
  // model's own.
  const bool fixed = model->decoder.position == PositionKind::learned;
  if ((fixed || !(e.max_model_len || s.after(0, 7, 0))) &&
      e.prompt_length + e.response_length > model->decoder.max_positions)
    return problem("data.max_response_length",
                   fmt::format("expected prompt and response within the model's {} positions, found {} + {}",
                               model->decoder.max_positions, e.prompt_length, e.response_length));
  const std::int64_t served = e.max_model_len.value_or(e.prompt_length + e.response_length);
  // The rollout inside the trainer's process refuses it; vLLM does where prompts can't come in pieces.
  // Releases before 0.3 leave the check to vLLM, which takes any number where prompts may come in pieces.
  const bool asked = (e.sync_mode && !s.before_checks) || !e.chunked_prefill;
  if (e.name == "vllm" && asked && e.max_num_batched_tokens < served)
    return problem(at + "max_num_batched_tokens",
                   fmt::format("expected at least the longest sequence's {} tokens ({}), found {}", served,
                               e.sync_mode ? "this release's rollout refuses less"
                                           : "enable_chunked_prefill is false",
                               e.max_num_batched_tokens));
  if (e.max_model_len && model->decoder.max_positions > 0 &&
      *e.max_model_len > model->decoder.max_positions && s.after(0, 7, 1))
    return problem(at + "max_model_len", fmt::format("expected at most the model's {} positions, found {}",
                                                     model->decoder.max_positions, *e.max_model_len));
  return {};
}

}  // namespace

std::optional<Problem> find_problem(const Settings& s) {
  const std::string actor = "actor_rollout_ref.actor.", ref = "actor_rollout_ref.ref.",
                    rollout = "actor_rollout_ref.rollout.";
  if (s.train_batch_size * s.n > (std::int64_t{1} << 31))
    return problem(
        "data.train_batch_size",
        fmt::format("expected at most 2^31 sequences a step, found {} x {}", s.train_batch_size, s.n));
  HEADROOM_VERL_CHECK(trained(s, s.actor,
                              {.mini = actor + "ppo_mini_batch_size",
                               .micro = actor + "ppo_micro_batch_size_per_gpu",
                               .tokens = actor + "ppo_max_token_len_per_gpu",
                               .forward_micro = rollout + "log_prob_micro_batch_size_per_gpu",
                               .forward_tokens = rollout + "log_prob_max_token_len_per_gpu",
                               .ulysses = actor + "ulysses_sequence_parallel_size",
                               .tensor = actor + "megatron.tensor_model_parallel_size"}));
  const auto data_ranks = [&](const Worker& w) { return s.gpus() / model_ranks(w); };
  if (!s.bypass_mode)
    HEADROOM_VERL_CHECK(whole_batches(s, s.actor.forward, data_ranks(s.actor),
                                      rollout + "log_prob_micro_batch_size_per_gpu"));
  const std::int64_t sequences = s.train_batch_size * s.n;
  if (s.actor.strategy != Strategy::megatron && sequences % s.gpus() != 0)
    return problem(
        "data.train_batch_size",
        fmt::format(
            "expected a batch whose {} sequences (x rollout.n = {}) divide over the {} GPUs, found {}",
            sequences, s.n, s.gpus(), s.train_batch_size));
  if (s.after(0, 9, 0) && s.actor.forward.dynamic != s.actor.train.dynamic)
    return problem(rollout + "log_prob_use_dynamic_bsz", "expected the same value as actor.use_dynamic_bsz");
  if (s.actor.model.mtp && s.actor.strategy == Strategy::megatron && s.actor.model.architecture != nullptr &&
      s.actor.model.architecture->decoder.next_token_layers == 0)
    return problem("actor_rollout_ref.model.mtp.enable",
                   fmt::format("expected a model with layers for multi-token prediction, found {} without",
                               s.actor.model.architecture->family));
  if (s.actor.lora.rank > 0 && s.rollout.layered_summon && s.rollout.load_format.rfind("dummy", 0) == 0)
    return problem(rollout + "load_format",
                   "layered_summon needs weights from disk (safetensors), found " + s.rollout.load_format);
  HEADROOM_VERL_CHECK(engine(s, s.rollout, s.actor.model.architecture.get(), rollout));
  if (s.trainer_mode == "separate_async" && s.rollout.nodes == 0)
    return problem(rollout + "nnodes",
                   "expected GPUs for the rollout (trainer.v1.trainer_mode is separate_async), found 0");
  if (s.ref.exists && s.actor.lora.rank == 0) {
    HEADROOM_VERL_CHECK(groups(s, s.ref,
                               {.mini = {},
                                .micro = {},
                                .tokens = {},
                                .forward_micro = {},
                                .forward_tokens = {},
                                .ulysses = ref + "ulysses_sequence_parallel_size",
                                .tensor = ref + "megatron.tensor_model_parallel_size"}));
    HEADROOM_VERL_CHECK(packing(s, s.ref.forward, s.ref.ulysses, ref + "log_prob_micro_batch_size_per_gpu",
                                ref + "log_prob_max_token_len_per_gpu"));
    HEADROOM_VERL_CHECK(whole_batches(s, s.ref.forward, data_ranks(s.ref),
                                      ref + "log_prob_micro_batch_size_per_gpu"));
  }
  if (s.critic.exists)
    HEADROOM_VERL_CHECK(trained(
        s, s.critic,
        {.mini = "critic.ppo_mini_batch_size",
         .micro = "critic.ppo_micro_batch_size_per_gpu",
         .tokens = s.v1 ? "critic.ppo_infer_max_token_len_per_gpu" : "critic.ppo_max_token_len_per_gpu",
         .forward_micro = "critic.forward_micro_batch_size_per_gpu",
         .forward_tokens = "critic.forward_max_token_len_per_gpu",
         .ulysses = "critic.ulysses_sequence_parallel_size",
         .tensor = "critic.megatron.tensor_model_parallel_size"}));
  if (s.reward.exists)
    HEADROOM_VERL_CHECK(packing(s, s.reward.forward, s.reward.ulysses,
                                "reward_model.micro_batch_size_per_gpu",
                                "reward_model.forward_max_token_len_per_gpu"));
  if (s.reward_engine.exists)
    HEADROOM_VERL_CHECK(engine(s, s.reward_engine, s.reward_model.get(),
                               s.after(0, 7, 1) ? "reward.reward_model.rollout." : "reward_model.rollout."));
  std::int64_t taught = 0;
  for (const Teacher& teacher : s.teachers) {
    HEADROOM_VERL_CHECK(engine(s, teacher.engine, teacher.model.get(), teacher.key + ".inference."));
    taught += teacher.engine.nodes * teacher.engine.gpus_per_node;
  }
  if (taught != s.teacher_gpus)
    return problem("distillation.n_gpus_per_node",
                   fmt::format("expected as many GPUs as the teachers' replicas take ({}), found {}", taught, s.teacher_gpus));
  return {};
}

#undef HEADROOM_VERL_CHECK

}  // namespace headroom::verl
