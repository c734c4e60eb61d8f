#include "planner/frameworks/verl/knob_values.h"

#include <algorithm>
#include <charconv>

namespace headroom::verl {
namespace {

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> out;
  for (std::int64_t d = 1; d <= n && d <= 4096; ++d)
    if (n % d == 0) out.push_back(d);
  return out;
}

std::int64_t ranks(const Settings& s, const Worker& w) {
  const Megatron& m = w.megatron;
  const std::int64_t model = w.strategy == Strategy::megatron ? m.tensor * m.pipeline * m.context : w.ulysses;
  return std::max<std::int64_t>(1, s.gpus() / std::max<std::int64_t>(1, model));
}

bool heads_allow(const Settings& s, std::int64_t size) {
  const auto& model = s.actor.model.architecture;
  if (model == nullptr) return true;
  for (const LayerGroup& group : model->decoder.groups) {
    const Attention& attention = group.layer.attention;
    if (attention.heads % size != 0) return false;
    if (attention.kv_heads % size != 0 && size % attention.kv_heads != 0) return false;
  }
  return true;
}

}  // namespace
std::string word(bool flag) {
  return flag ? "true" : "false";
}
std::string word(std::int64_t number) {
  return std::to_string(number);
}
std::string word(std::optional<std::int64_t> number) {
  return number ? std::to_string(*number) : "null";
}

std::optional<std::int64_t> number(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Values words(std::vector<std::int64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  Values out;
  for (std::int64_t n : numbers) out.push_back(word(n));
  return out;
}

std::vector<std::int64_t> doublings(std::int64_t from, std::int64_t to) {
  std::vector<std::int64_t> out;
  for (std::int64_t n = from; n <= to; n *= 2) out.push_back(n);
  return out;
}

std::int64_t longest(const Settings& s) {
  return s.prompt_length + s.response_length;
}

/// Sizes that divide a rank's sequences of a mini-batch, as verl asks for.
Values micro_values(const Settings& s, const Worker& w) {
  std::vector<std::int64_t> out = divisors(std::max<std::int64_t>(1, w.mini_batch * s.n / ranks(s, w)));
  if (w.train.micro) out.push_back(*w.train.micro);
  return words(out);
}

Values log_prob_values(const Settings& s, const Packing& pass) {
  const std::int64_t most = std::max<std::int64_t>(1, s.train_batch_size * s.n / ranks(s, s.actor));
  std::vector<std::int64_t> out = doublings(1, std::min<std::int64_t>(most, 256));
  if (pass.micro) out.push_back(*pass.micro);
  return words(out);
}

/// Budgets that hold 1, 2, 3 … of the longest sequences, up to all that a rank has of `sequences`.
Values budget_values(const Settings& s, const Worker& w, std::int64_t sequences, std::int64_t current) {
  constexpr std::int64_t kMostTokens = 1 << 19;
  const std::int64_t each = round_up(ceil_div(longest(s), w.ulysses), 256);
  const std::int64_t all = std::max<std::int64_t>(1, sequences / ranks(s, w));
  std::vector<std::int64_t> out{current};
  for (std::int64_t n : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64})
    if (n <= all && each * n <= kMostTokens) out.push_back(each * n);
  return words(out);
}

bool set_flag(bool& field, const std::string& value) {
  if (value != "true" && value != "false") return false;
  field = value == "true";
  return true;
}

bool set_number(std::int64_t& field, const std::string& value, std::int64_t least) {
  const auto n = number(value);
  if (!n || *n < least || *n > (std::int64_t{1} << 30)) return false;
  field = *n;
  return true;
}

bool set_number(std::optional<std::int64_t>& field, const std::string& value) {
  std::int64_t n = 0;
  if (!set_number(n, value)) return false;
  field = n;
  return true;
}

/// Stages of unequal or interleaved layers are a run's own: no other number of stages is known to suit them.
Values stage_counts(const Settings& s) {
  const Megatron& m = s.actor.megatron;
  std::vector<std::int64_t> out{m.pipeline};
  const bool even = m.virtual_pipeline <= 1 && m.first_stage_layers == 0 && m.last_stage_layers == 0 &&
                    !m.account_for_embedding && !m.account_for_loss;
  const auto& model = s.actor.model.architecture;
  if (!even || model == nullptr) return words(out);
  std::int64_t layers = 0;
  for (const LayerGroup& group : model->decoder.groups) layers += group.count;
  for (std::int64_t d : divisors(s.gpus()))
    if (layers % d == 0) out.push_back(d);
  return words(out);
}

/// Sizes of a group inside a node that the model's heads can be split over.
Values head_groups(const Settings& s, std::int64_t gpus, std::int64_t current) {
  std::vector<std::int64_t> out{current};
  for (std::int64_t d : divisors(gpus))
    if (heads_allow(s, d)) out.push_back(d);
  return words(out);
}

}  // namespace headroom::verl
