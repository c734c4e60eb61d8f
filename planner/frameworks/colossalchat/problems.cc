#include <fmt/format.h>

#include "planner/frameworks/colossalchat/settings.h"

namespace headroom::colossalchat {
namespace {

std::optional<Problem> problem(std::string key, std::string message) {
  return Problem{.key = std::move(key), .message = std::move(message)};
}

std::optional<Problem> of_gemini(const Settings& s) {
  if (!s.coati() && (!s.lora_config.empty() && s.lora_rank > 0))
    return problem("lora_config", "expected no adapters under Gemini, which ColossalChat refuses");
  if (s.plugin == "gemini_auto" && !s.coati()) {
    if (s.accumulation > 1)
      return problem("accumulation_steps",
                     fmt::format("expected 1 under gemini_auto, which does not add gradients up, found {}",
                                 s.accumulation));
    if (s.rl())
      return problem("plugin",
                     "expected gemini, zero2, zero2_cpu or 3d: gemini_auto has to see a training step before it can "
                     "generate, and stops; found gemini_auto");
  }
  if (s.coati() && s.accumulation > 1)
    return problem("accumulation_steps",
                   fmt::format("expected 1 under {}, which does not add gradients up, found {}", s.strategy,
                               s.accumulation));
  return {};
}

std::optional<Problem> of_lengths(const Settings& s) {
  if (!s.rl()) return {};
  if (s.coati() && s.program == Program::ppo && s.prompt() >= s.total_length)
    return problem("max_seq_len", fmt::format("expected more than a prompt's {} tokens, found {}", s.prompt(), s.total_length));
  if (!s.coati() && s.response_length >= s.total_length)
    return problem("max_seq_len", fmt::format("expected less than --max_length's {} tokens, found {}", s.total_length,
                                              s.response_length));
  if (s.train_batch > s.buffer())
    return problem("train_batch_size",
                   fmt::format("expected at most the {} sequences that are collected before training, found {}: no batch "
                               "would be full, and those that are not are dropped",
                               s.buffer(), s.train_batch));
  return {};
}

}  // namespace

std::optional<Problem> find_problem(const Settings& s) {
  const std::int64_t shared = s.tensor * s.pipeline * s.sequence;
  if (s.parallel() && s.nodes * s.gpus % shared != 0)
    return problem("tp", fmt::format("expected sizes that divide the {} GPUs, found {}", s.nodes * s.gpus, shared));
  if (s.gemini())
    if (auto found = of_gemini(s)) return found;
  return of_lengths(s);
}

}  // namespace headroom::colossalchat
