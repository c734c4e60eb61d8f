#include "planner/frameworks/verl/knob_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/frameworks/verl/knob_keys.h"
#include "planner/frameworks/verl/knob_values.h"
#include "planner/frameworks/verl/megatron_knobs.h"
#include "planner/frameworks/verl/sections.h"

namespace headroom::verl {
namespace {

// --- Keys --------------------------------------------------------------------------------------------------

std::string critic_fsdp(const Settings& s) {
  return s.after(0, 8, 0) ? "critic.fsdp." : "critic.model.fsdp_config.";
}

std::string backend(const Settings& s, const Worker& w, const std::string& role) {
  if (w.strategy == Strategy::megatron) return role + "megatron.";
  return role == "critic." ? critic_fsdp(s) : role + "fsdp_config.";
}

void add_ulysses(Keys& keys, const Settings& s, const std::string& role, std::int64_t size) {
  keys.push_back({role + "ulysses_sequence_parallel_size", word(size)});
  if (s.after(0, 6, 0)) keys.push_back({role + "fsdp_config.ulysses_sequence_parallel_size", word(size)});
}

bool always(const Settings&) {
  return true;
}
bool fsdp(const Settings& s) {
  return s.actor.strategy == Strategy::fsdp || s.actor.strategy == Strategy::fsdp2;
}
bool megatron(const Settings& s) {
  return s.actor.strategy == Strategy::megatron;
}
bool has_critic(const Settings& s) {
  return s.critic.exists;
}
bool fsdp_critic(const Settings& s) {
  return s.critic.exists && s.critic.strategy != Strategy::megatron;
}
bool vllm(const Settings& s) {
  return s.rollout.name == "vllm";
}
bool separate_ref(const Settings& s) {
  return s.ref.exists && s.actor.lora.rank == 0;
}

bool set_dynamic(Settings& s, const std::string& value) {
  bool dynamic = false;
  if (!set_flag(dynamic, value)) return false;
  for (Packing* pass : {&s.actor.train, &s.actor.forward, &s.ref.forward, &s.ref.train}) {
    pass->dynamic = dynamic;
    if (!dynamic && !pass->micro) pass->micro = 1;
  }
  if (s.v1) return true;  // the V1 trainer always packs the critic
  for (Packing* pass : {&s.critic.train, &s.critic.forward, &s.reward.forward, &s.reward.train}) {
    pass->dynamic = dynamic;
    if (!dynamic && !pass->micro) pass->micro = 1;
  }
  return true;
}

Keys dynamic_keys(const Settings& s) {
  const std::string flag = word(s.actor.train.dynamic);
  Keys keys{{kActor + "use_dynamic_bsz", flag}, {kRollout + "log_prob_use_dynamic_bsz", flag}};
  if (s.ref.exists) keys.push_back({kRef + "log_prob_use_dynamic_bsz", flag});
  if (s.critic.exists) keys.push_back({"critic.use_dynamic_bsz", flag});
  if (s.reward.exists) keys.push_back({"reward_model.use_dynamic_bsz", flag});
  add_sizes(keys, s, s.actor.train.dynamic);
  return keys;
}

bool set_strategy(Settings& s, const std::string& value) {
  if (value != "fsdp" && value != "fsdp2") return false;
  const Strategy strategy = value == "fsdp2" ? Strategy::fsdp2 : Strategy::fsdp;
  for (Worker* worker : {&s.actor, &s.ref, &s.critic})
    if (worker->exists && worker->strategy != Strategy::megatron) worker->strategy = strategy;
  return true;
}

bool set_ulysses(Settings& s, const std::string& value) {
  if (!set_number(s.actor.ulysses, value)) return false;
  if (s.ref.exists) s.ref.ulysses = s.actor.ulysses;
  return true;
}

bool set_padding(Settings& s, const std::string& value) {
  if (!set_flag(s.actor.model.remove_padding, value)) return false;
  if (s.ref.exists) s.ref.model.remove_padding = s.actor.model.remove_padding;
  if (s.critic.exists) s.critic.model.remove_padding = s.actor.model.remove_padding;
  return true;
}

bool set_utilization(Settings& s, const std::string& value) {
  const auto fraction = Document::scalar(value).as_double();
  if (!fraction || *fraction <= 0 || *fraction > 1) return false;
  s.rollout.gpu_memory_utilization = *fraction;
  return true;
}

Values utilization_values(const Settings& s) {
  std::vector<double> out{s.rollout.gpu_memory_utilization};
  for (int percent = 20; percent <= 90; percent += 5) out.push_back(percent / 100.0);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  Values texts;
  for (double u : out) texts.push_back(fmt::format("{}", u));
  return texts;
}

Keys utilization_keys(const Settings& s) {
  const std::string value = fmt::format("{}", s.rollout.gpu_memory_utilization);
  Keys keys{{kRollout + "gpu_memory_utilization", value}};
  if (s.rollout.passed_through.count("gpu_memory_utilization") > 0)
    keys.push_back({kRollout + "engine_kwargs.vllm.gpu_memory_utilization", value});
  if (s.rollout.passed_through.count("mem_fraction_static") > 0)
    keys.push_back({kRollout + "engine_kwargs.sglang.mem_fraction_static", value});
  return keys;
}

/// A rollout key, and the engine's own argument when the run passes that too (it would win).
Keys rollout_keys(const Settings& s, const std::string& key, const std::string& value,
                  const std::string& argument) {
  Keys keys{{kRollout + key, value}};
  const std::string library = s.rollout.name == "sglang" ? "sglang." : "vllm.";
  if (s.rollout.passed_through.count(argument) > 0)
    keys.push_back({kRollout + "engine_kwargs." + library + argument, value});
  return keys;
}

// --- Effects -----------------------------------------------------------------------------------------------

using settings::Effects;

constexpr unsigned kPasses = kScoring | kTraining;
const Effects kStrategy = {{.activities = kPasses, .faster = End::first, .slack = 0.03},
                           {.activities = kResting},
                           {.activities = kGenerating, .seconds = false}};
const Effects kSharedSequences = {{.activities = kPasses},
                                  {.activities = kGenerating | kResting, .seconds = false, .frugal = End::first}};
const Effects kShards = {{.activities = kPasses | kResting, .frugal = End::last},
                         {.activities = kGenerating, .faster = End::last, .frugal = End::last}};
// It takes the place of moving the weights to and fro.
const Effects kPolicy = {{.activities = kPasses | kResting, .frugal = End::last},
                         {.activities = kGenerating, .faster = End::last, .frugal = End::last}};
const Effects kResharding = {{.activities = kPasses, .faster = End::first, .frugal = End::last},
                             {.seconds = false, .frugal = End::last}};
const Effects kLiger = {{.activities = kPasses, .faster = End::last, .frugal = End::last}};
const Effects kEntropy = {{.activities = kPasses, .faster = End::first, .frugal = End::last}};
const Effects kEntropyAgain = {{.activities = kTraining, .faster = End::first, .frugal = End::last, .role = "actor"}};
const Effects kCriticBudget = [] {
  Effects out = settings::pass_size("critic");
  out.push_back(settings::scoring_size("reward").front());
  return out;
}();
/// The engine's longest request: less of it leaves more of the cache.
const Effects kLongest = {{.activities = kGenerating, .faster = End::last, .frugal = End::last},
                          {.seconds = false, .frugal = End::last}};

// clang-format off
const KnobRow kRows[] = {
    {"dynamic_batching", "micro-batches packed to a token budget instead of a fixed number of sequences", false, always,
     [](const Settings& s) { return word(s.actor.train.dynamic); }, [](const Settings&) { return kFlags; }, set_dynamic, dynamic_keys, {}, settings::passes()},
    {"remove_padding", "packed sequences instead of padded ones", false, fsdp,
     [](const Settings& s) { return word(s.actor.model.remove_padding); }, [](const Settings&) { return kFlags; }, set_padding,
     [](const Settings& s) {
       Keys keys{{kModel + "use_remove_padding", word(s.actor.model.remove_padding)}};
       if (s.after(0, 6, 0)) keys.push_back({kActor + "use_remove_padding", word(s.actor.model.remove_padding)});
       if (s.critic.exists) keys.push_back({"critic.model.use_remove_padding", word(s.critic.model.remove_padding)});
       return keys;
     }, {}, settings::passes()},
    {"strategy", "FSDP1 or FSDP2, for every trained model", false, fsdp,
     [](const Settings& s) { return std::string(s.actor.strategy == Strategy::fsdp2 ? "fsdp2" : "fsdp"); },
     [](const Settings&) { return Values{"fsdp", "fsdp2"}; }, set_strategy,
     [](const Settings& s) {
       const std::string value = s.actor.strategy == Strategy::fsdp2 ? "fsdp2" : "fsdp";
       Keys keys{{kActor + "strategy", value}};
       if (s.ref.exists) keys.push_back({kRef + "strategy", value});
       if (fsdp_critic(s)) keys.push_back({"critic.strategy", value});
       return keys;
     }, {}, kStrategy},
    {"ulysses", "GPUs that share each sequence in training", false, [](const Settings& s) { return fsdp(s) && s.actor.model.remove_padding; },
     [](const Settings& s) { return word(s.actor.ulysses); },
     [](const Settings& s) { return head_groups(s, s.gpus_per_node, s.actor.ulysses); }, set_ulysses,
     [](const Settings& s) {
       Keys keys;
       add_ulysses(keys, s, kActor, s.actor.ulysses);
       if (s.ref.exists) add_ulysses(keys, s, kRef, s.ref.ulysses);
       if (!s.deprecated_micro.empty()) add_sizes(keys, s, false);
       return keys;
     }, {}, kSharedSequences},
    {"fsdp_size", "GPUs over which one copy of the training states is spread; -1: all", false, fsdp,
     [](const Settings& s) { return word(s.actor.fsdp.fsdp_size); },
     [](const Settings& s) {
       std::vector<std::int64_t> sizes;
       for (std::int64_t size = s.gpus_per_node; size < s.gpus(); size *= 2)
         if (s.gpus() % size == 0) sizes.push_back(size);
       const std::int64_t now = s.actor.fsdp.fsdp_size;
       if (now > 0 && now < s.gpus()) sizes.push_back(now);
       Values out = words(sizes);
       out.push_back(word(now >= s.gpus() ? now : -1));  // all GPUs: one of two ways to say it
       return out;
     },
     [](Settings& s, const std::string& value) { return set_number(s.actor.fsdp.fsdp_size, value, -1); },
     [](const Settings& s) { return Keys{{kActor + "fsdp_config.fsdp_size", word(s.actor.fsdp.fsdp_size)}}; }, {}, kShards},
    {"param_offload", "the actor's weights on the host while they are not used", false, always,
     [](const Settings& s) { return word(megatron(s) ? s.actor.megatron.param_offload : s.actor.fsdp.param_offload); },
     [](const Settings&) { return kFlags; },
     [](Settings& s, const std::string& v) { return set_flag(megatron(s) ? s.actor.megatron.param_offload : s.actor.fsdp.param_offload, v); },
     [](const Settings& s) {
       Keys keys{{backend(s, s.actor, kActor) + "param_offload", word(megatron(s) ? s.actor.megatron.param_offload : s.actor.fsdp.param_offload)}};
       if (megatron(s) && s.ref.exists) keys.push_back({kRef + "megatron.param_offload", word(s.ref.megatron.param_offload)});
       return keys;
     }, {}, settings::parked()},
    {"optimizer_offload", "the actor's optimizer states on the host except in its update", false, always,
     [](const Settings& s) { return word(megatron(s) ? s.actor.megatron.optimizer_offload : s.actor.fsdp.optimizer_offload); },
     [](const Settings&) { return kFlags; },
     [](Settings& s, const std::string& v) { return set_flag(megatron(s) ? s.actor.megatron.optimizer_offload : s.actor.fsdp.optimizer_offload, v); },
     [](const Settings& s) { return Keys{{backend(s, s.actor, kActor) + "optimizer_offload", word(megatron(s) ? s.actor.megatron.optimizer_offload : s.actor.fsdp.optimizer_offload)}}; }, {}, settings::parked_optimizer("actor")},
    {"offload_policy", "FSDP2: the actor's states live on the host for good and its step runs there", false,
     [](const Settings& s) { return s.actor.strategy == Strategy::fsdp2; },
     [](const Settings& s) { return word(s.actor.fsdp.offload_policy); }, [](const Settings&) { return kFlags; },
     [](Settings& s, const std::string& v) { return set_flag(s.actor.fsdp.offload_policy, v); },
     [](const Settings& s) { return Keys{{kActor + "fsdp_config.offload_policy", word(s.actor.fsdp.offload_policy)}}; }, {"strategy", "fsdp2"}, kPolicy},
    {"reshard_after_forward", "gathered weights are freed between forward and backward", false, fsdp,
     [](const Settings& s) { return word(s.actor.fsdp.reshard_after_forward); }, [](const Settings&) { return kFlags; },
     [](Settings& s, const std::string& v) { return set_flag(s.actor.fsdp.reshard_after_forward, v); },
     [](const Settings& s) { return Keys{{kActor + "fsdp_config.reshard_after_forward", word(s.actor.fsdp.reshard_after_forward)}}; }, {}, kResharding},
    {"gradient_checkpointing", "the actor's layers are recomputed in the backward", false, fsdp,
     [](const Settings& s) { return word(s.actor.model.gradient_checkpointing); }, [](const Settings&) { return kFlags; },
     [](Settings& s, const std::string& v) { return set_flag(s.actor.model.gradient_checkpointing, v); },
     [](const Settings& s) { return Keys{{kModel + "enable_gradient_checkpointing", word(s.actor.model.gradient_checkpointing)}}; }, {}, settings::recomputation("actor")},
    {"activation_offload", "saved activations go to the host between forward and backward", false, fsdp,
     [](const Settings& s) { return word(s.actor.model.activation_offload); }, [](const Settings&) { return kFlags; },
     [](Settings& s, const std::string& v) { return set_flag(s.actor.model.activation_offload, v); },
     [](const Settings& s) { return Keys{{kModel + "enable_activation_offload", word(s.actor.model.activation_offload)}}; }, {}, settings::training_saver("actor")},
    {"fused_kernels", "log-probs without the whole logits", false, fsdp,
     [](const Settings& s) { return word(s.fused_kernels); }, [](const Settings&) { return kFlags; },
     [](Settings& s, const std::string& v) { return set_flag(s.fused_kernels, v); },
     [](const Settings& s) {
       Keys keys{{kModel + "use_fused_kernels", word(s.fused_kernels)}};
       if (s.after(0, 5, 0)) keys.push_back({kActor + "use_fused_kernels", word(s.fused_kernels)});
       return keys;
     }, {}, settings::passes()},
    {"liger", "fused norm, rotary and SwiGLU kernels", false, fsdp,
     [](const Settings& s) { return word(s.actor.model.liger); }, [](const Settings&) { return kFlags; },
     [](Settings& s, const std::string& v) {
       if (!set_flag(s.actor.model.liger, v)) return false;
       if (s.ref.exists) s.ref.model.liger = s.actor.model.liger;
       return true;
     },
     [](const Settings& s) { return Keys{{kModel + "use_liger", word(s.actor.model.liger)}}; }, {}, kLiger},
    {"entropy_chunking", "entropy by chunks of rows", false, fsdp,
     [](const Settings& s) { return word(s.entropy_chunking); }, [](const Settings&) { return kFlags; },
     [](Settings& s, const std::string& v) { return set_flag(s.entropy_chunking, v); },
     [](const Settings& s) { return Keys{{kActor + "entropy_from_logits_with_chunking", word(s.entropy_chunking)}}; }, {}, kEntropy},
    {"entropy_checkpointing", "entropy is recomputed in the backward", false, fsdp,
     [](const Settings& s) { return word(s.entropy_checkpointing); }, [](const Settings&) { return kFlags; },
     [](Settings& s, const std::string& v) { return set_flag(s.entropy_checkpointing, v); },
     [](const Settings& s) { return Keys{{kActor + "entropy_checkpointing", word(s.entropy_checkpointing)}}; }, {}, kEntropyAgain},
    {"micro_batch", "sequences a GPU trains on at once", false, always,
     [](const Settings& s) { return word(s.actor.train.micro.value_or(1)); }, [](const Settings& s) { return micro_values(s, s.actor); },
     [](Settings& s, const std::string& v) { return set_number(s.actor.train.micro, v); },
     [](const Settings& s) {
       Keys keys{{kActor + "ppo_micro_batch_size_per_gpu", word(s.actor.train.micro)}};
       if (!s.deprecated_micro.empty()) {
         keys.clear();
         add_sizes(keys, s, false);
       }
       return keys;
     }, {"dynamic_batching", "false"}, settings::training_size("actor")},
    {"log_prob_micro_batch", "sequences a GPU takes log-probs of at once", false, always,
     [](const Settings& s) { return word(s.actor.forward.micro.value_or(1)); },
     [](const Settings& s) { return log_prob_values(s, s.actor.forward); },
     [](Settings& s, const std::string& v) {
       if (!set_number(s.actor.forward.micro, v)) return false;
       if (s.ref.exists) s.ref.forward.micro = s.ref.train.micro = s.actor.forward.micro;
       return true;
     },
     [](const Settings& s) {
       Keys keys;
       if (s.deprecated_micro.empty()) {
         add_log_prob(keys, s, false);
       } else {
         add_sizes(keys, s, false);
       }
       return keys;
     }, {"dynamic_batching", "false"}, settings::scoring_size()},
    {"token_budget", "tokens a GPU trains on at once", false, always,
     [](const Settings& s) { return word(s.actor.train.tokens); },
     [](const Settings& s) { return budget_values(s, s.actor, s.actor.mini_batch * s.n, s.actor.train.tokens); },
     [](Settings& s, const std::string& v) { return set_number(s.actor.train.tokens, v); },
     [](const Settings& s) {
       Keys keys{{kActor + "ppo_max_token_len_per_gpu", word(s.actor.train.tokens)}};
       add_log_prob(keys, s, true);
       return keys;
     }, {"dynamic_batching", "true"}, settings::training_size("actor")},
    {"log_prob_token_budget", "tokens a GPU takes log-probs of at once", false, always,
     [](const Settings& s) { return word(s.actor.forward.tokens); },
     [](const Settings& s) { return budget_values(s, s.actor, s.train_batch_size * s.n, s.actor.forward.tokens); },
     [](Settings& s, const std::string& v) {
       if (!set_number(s.actor.forward.tokens, v)) return false;
       if (s.ref.exists) s.ref.forward.tokens = s.ref.train.tokens = s.actor.forward.tokens;
       return true;
     },
     [](const Settings& s) {
       Keys keys;
       add_log_prob(keys, s, true);
       return keys;
     }, {"dynamic_batching", "true"}, settings::scoring_size()},
    {"critic_param_offload", "the critic's weights on the host while they are not used", false, fsdp_critic,
     [](const Settings& s) { return word(s.critic.fsdp.param_offload); }, [](const Settings&) { return kFlags; },
     [](Settings& s, const std::string& v) { return set_flag(s.critic.fsdp.param_offload, v); },
     [](const Settings& s) { return Keys{{critic_fsdp(s) + "param_offload", word(s.critic.fsdp.param_offload)}}; }, {}, settings::parked()},
    {"critic_optimizer_offload", "the critic's optimizer states on the host except in its update", false, fsdp_critic,
     [](const Settings& s) { return word(s.critic.fsdp.optimizer_offload); }, [](const Settings&) { return kFlags; },
     [](Settings& s, const std::string& v) { return set_flag(s.critic.fsdp.optimizer_offload, v); },
     [](const Settings& s) { return Keys{{critic_fsdp(s) + "optimizer_offload", word(s.critic.fsdp.optimizer_offload)}}; }, {}, settings::parked_optimizer("critic")},
    {"critic_gradient_checkpointing", "the critic's layers are recomputed in the backward", false, fsdp_critic,
     [](const Settings& s) { return word(s.critic.model.gradient_checkpointing); }, [](const Settings&) { return kFlags; },
     [](Settings& s, const std::string& v) { return set_flag(s.critic.model.gradient_checkpointing, v); },
     [](const Settings& s) { return Keys{{"critic.model.enable_gradient_checkpointing", word(s.critic.model.gradient_checkpointing)}}; }, {}, settings::recomputation("critic")},
    {"critic_micro_batch", "sequences a GPU trains the critic on at once", false,
     [](const Settings& s) { return has_critic(s) && !s.v1; },
     [](const Settings& s) { return word(s.critic.train.micro.value_or(1)); }, [](const Settings& s) { return micro_values(s, s.critic); },
     [](Settings& s, const std::string& v) {
       if (!set_number(s.critic.train.micro, v)) return false;
       s.critic.forward.micro = s.critic.train.micro;
       return true;
     },
     [](const Settings& s) {
       Keys keys{{"critic.ppo_micro_batch_size_per_gpu", word(s.critic.train.micro)},
                 {"critic.forward_micro_batch_size_per_gpu", word(s.critic.forward.micro)}};
       if (!s.deprecated_micro.empty()) {
         keys.clear();
         add_sizes(keys, s, false);
       }
       return keys;
     }, {"dynamic_batching", "false"}, settings::pass_size("critic")},
    {"critic_token_budget", "tokens a GPU trains the critic on at once", false, has_critic,
     [](const Settings& s) { return word(s.critic.train.tokens); },
     [](const Settings& s) { return budget_values(s, s.critic, s.critic.mini_batch * s.n, s.critic.train.tokens); },
     [](Settings& s, const std::string& v) {
       if (!set_number(s.critic.train.tokens, v)) return false;
       s.critic.forward.tokens = s.critic.train.tokens;
       return true;
     },
     [](const Settings& s) {
       if (s.v1) return Keys{{"critic.ppo_infer_max_token_len_per_gpu", word(s.critic.train.tokens)}};
       Keys keys{{"critic.ppo_max_token_len_per_gpu", word(s.critic.train.tokens)},
                 {"critic.forward_max_token_len_per_gpu", word(s.critic.forward.tokens)}};
       if (s.reward.exists) keys.push_back({"reward_model.forward_max_token_len_per_gpu", word(s.reward.forward.tokens)});
       return keys;
     }, {}, kCriticBudget},
    {"gpu_memory_utilization", "share of the GPU that the rollout engine may take", false, always,
     [](const Settings& s) { return fmt::format("{}", s.rollout.gpu_memory_utilization); }, utilization_values, set_utilization, utilization_keys, {}, settings::engine_share()},
    {"rollout_tensor_parallel", "GPUs that share one rollout engine", false, always,
     [](const Settings& s) { return word(s.rollout.tensor); },
     [](const Settings& s) { return head_groups(s, s.rollout.nodes > 0 ? s.rollout.gpus_per_node : s.gpus_per_node, s.rollout.tensor); },
     [](Settings& s, const std::string& v) { return set_number(s.rollout.tensor, v); },
     [](const Settings& s) { return Keys{{kRollout + "tensor_model_parallel_size", word(s.rollout.tensor)}}; }, {}, settings::engine_ranks()},
    {"max_num_seqs", "sequences that the engine generates at once", false, always,
     [](const Settings& s) { return word(s.rollout.max_num_seqs); },
     [](const Settings& s) {
       std::vector<std::int64_t> out = doublings(16, 1024);
       out.push_back(s.rollout.max_num_seqs);
       return words(out);
     },
     [](Settings& s, const std::string& v) { return set_number(s.rollout.max_num_seqs, v); },
     [](const Settings& s) { return rollout_keys(s, "max_num_seqs", word(s.rollout.max_num_seqs), "max_num_seqs"); }, {}, settings::engine_sequences()},
    {"max_num_batched_tokens", "tokens of one prefill step", false, always,
     [](const Settings& s) { return word(s.rollout.max_num_batched_tokens); },
     [](const Settings& s) {
       std::vector<std::int64_t> out = doublings(2048, 32768);
       out.push_back(s.rollout.max_num_batched_tokens);
       return words(out);
     },
     [](Settings& s, const std::string& v) { return set_number(s.rollout.max_num_batched_tokens, v); },
     [](const Settings& s) {
       return rollout_keys(s, "max_num_batched_tokens", word(s.rollout.max_num_batched_tokens),
                           s.rollout.name == "sglang" ? "chunked_prefill_size" : "max_num_batched_tokens");
     }, {}, settings::engine_prefill()},
    {"max_model_len", "longest request that the engine must be able to hold; null: the release's default", false,
     [](const Settings& s) { return s.version != Version{0, 7, 0}; },
     [](const Settings& s) { return word(s.rollout.max_model_len); },
     [](const Settings& s) {
       Values out;
       if (!s.rollout.max_model_len) out.push_back("null");
       std::vector<std::int64_t> lengths{longest(s)};
       if (s.rollout.max_model_len) lengths.push_back(*s.rollout.max_model_len);
       for (const std::string& length : words(lengths)) out.push_back(length);
       return out;
     },
     [](Settings& s, const std::string& v) {
       if (v == "null") return s.rollout.max_model_len.reset(), true;
       return set_number(s.rollout.max_model_len, v);
     },
     [](const Settings& s) { return rollout_keys(s, "max_model_len", word(s.rollout.max_model_len), "max_model_len"); }, {}, kLongest},
    {"enforce_eager", "no CUDA graphs", false, always,
     [](const Settings& s) { return word(s.rollout.enforce_eager); }, [](const Settings&) { return kFlags; },
     [](Settings& s, const std::string& v) { return set_flag(s.rollout.enforce_eager, v); },
     [](const Settings& s) { return rollout_keys(s, "enforce_eager", word(s.rollout.enforce_eager), "enforce_eager"); }, {}, settings::engine_eager()},
    {"weight_bucket", "MiB of the buffer that weights are sent through", false,
     [](const Settings& s) { return !s.rollout.sync_mode; },
     [](const Settings& s) { return word(s.rollout.bucket_megabytes); },
     [](const Settings& s) {
       std::vector<std::int64_t> out = doublings(128, 4096);
       out.push_back(s.rollout.bucket_megabytes);
       return words(out);
     },
     [](Settings& s, const std::string& v) { return set_number(s.rollout.bucket_megabytes, v); },
     [](const Settings& s) {
       const std::string key = s.after(0, 7, 1) ? "checkpoint_engine.update_weights_bucket_megabytes" : "update_weights_bucket_megabytes";
       return Keys{{kRollout + key, word(s.rollout.bucket_megabytes)}};
     }, {}, settings::weight_buffer()},
    {"allocator", "PYTORCH_CUDA_ALLOC_CONF of every process", false,
     [](const Settings& s) { return !s.allocator_from_environment; },
     [](const Settings& s) { return s.allocator_settings.empty() ? std::string("null") : s.allocator_settings; },
     [](const Settings& s) {
       Values out{"null", "garbage_collection_threshold:0.8", "max_split_size_mb:256"};
       if (!s.allocator_settings.empty() && std::find(out.begin(), out.end(), s.allocator_settings) == out.end()) out.push_back(s.allocator_settings);
       return out;
     },
     [](Settings& s, const std::string& v) {
       s.allocator_settings = v == "null" ? "" : v;
       return true;
     },
     [](const Settings& s) {
       return Keys{{"ray_kwargs.ray_init.runtime_env.env_vars.PYTORCH_CUDA_ALLOC_CONF", s.allocator_settings.empty() ? "null" : s.allocator_settings}};
     }, {}, {}, true},
    {"ref_model_dtype", "storage of the reference on the host", true, [](const Settings& s) { return separate_ref(s) && fsdp(s) && s.after(0, 6, 0); },
     [](const Settings& s) { return std::string(name(s.ref.fsdp.model_dtype.value_or(DType::fp32))); },
     [](const Settings&) { return Values{"bf16", "fp32"}; },
     [](Settings& s, const std::string& v) { return (s.ref.fsdp.model_dtype = parse_dtype(v)).has_value(); },
     [](const Settings& s) { return Keys{{kRef + "fsdp_config.model_dtype", std::string(name(s.ref.fsdp.model_dtype.value_or(DType::fp32)))}}; }},
    {"model_dtype", "storage of trained weights, gradients and Adam states", true, [](const Settings& s) { return fsdp(s) && s.after(0, 6, 0); },
     [](const Settings& s) { return std::string(name(s.actor.fsdp.model_dtype.value_or(DType::fp32))); },
     [](const Settings&) { return Values{"bf16", "fp32"}; },
     [](Settings& s, const std::string& v) {
       s.actor.fsdp.model_dtype = parse_dtype(v);
       if (fsdp_critic(s)) s.critic.fsdp.model_dtype = s.actor.fsdp.model_dtype;
       return s.actor.fsdp.model_dtype.has_value();
     },
     [](const Settings& s) {
       const std::string value(name(s.actor.fsdp.model_dtype.value_or(DType::fp32)));
       Keys keys{{kActor + "fsdp_config.model_dtype", value}};
       if (fsdp_critic(s)) keys.push_back({critic_fsdp(s) + "model_dtype", value});
       return keys;
     }},
    {"kv_cache_dtype", "storage of the KV cache", true, vllm,
     [](const Settings& s) { return s.rollout.kv_cache_dtype.empty() ? std::string("auto") : s.rollout.kv_cache_dtype; },
     [](const Settings& s) {
       Values out{"auto", "fp8"};
       if (!s.rollout.kv_cache_dtype.empty() && s.rollout.kv_cache_dtype != "auto" && s.rollout.kv_cache_dtype != "fp8") out.push_back(s.rollout.kv_cache_dtype);
       return out;
     },
     [](Settings& s, const std::string& v) { return s.rollout.kv_cache_dtype = v, true; },
     [](const Settings& s) { return Keys{{kRollout + "engine_kwargs.vllm.kv_cache_dtype", s.rollout.kv_cache_dtype.empty() ? "auto" : s.rollout.kv_cache_dtype}}; }},
};
// clang-format on

}  // namespace

std::span<const KnobRow> knob_table() {
  static const std::vector<KnobRow> rows = [] {
    const std::span<const KnobRow> layout = megatron_knobs();
    std::vector<KnobRow> all(layout.begin(), layout.end());
    all.insert(all.end(), std::begin(kRows), std::end(kRows));
    return all;
  }();
  return rows;
}

}  // namespace headroom::verl
