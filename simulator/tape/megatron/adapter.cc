#include "simulator/tape/megatron/adapter.h"

#include <algorithm>
#include <array>

#include "simulator/tape/megatron/collectives.h"
#include "simulator/tape/megatron/elementary.h"
#include "simulator/tape/megatron/own_linear.h"
#include "simulator/tape/operations/pointwise.h"

namespace headroom::tape::megatron {
namespace {

/// Megatron's modules, and the checkpoint's that are in them.
struct Target {
  std::string_view module;
  std::array<std::string_view, 4> parts;
  bool row;
};
constexpr Target kTargets[] = {{"linear_qkv", {"q_proj", "k_proj", "v_proj", "qkv_proj"}, false},
                               {"linear_proj", {"o_proj", "", "", ""}, true},
                               {"linear_fc1", {"gate_proj", "up_proj", "gate_up_proj", "w1"}, false},
                               {"linear_fc2", {"down_proj", "w2", "", ""}, true}};

const Target* target_of(std::string_view name) {
  for (const Target& target : kTargets)
    if (name.find(target.module) != std::string_view::npos) return &target;
  return nullptr;
}

Tensor own_tokens(const Context& c, const Tensor& whole, std::int64_t rows, std::int64_t) {
  Shape shape = whole.shape();
  shape.size[0] = rows;
  return c.tape.alias(whole, shape);
}
Tensor all_tokens(const Context& c, const Tensor& mine, std::int64_t, std::int64_t ranks) {
  return gather_rows(c, mine, ranks);
}

}  // namespace

std::optional<AdapterShapes> adapter_shapes(const MegatronWeight& weight, const LoraSpec& lora,
                                            std::int64_t tensor) {
  if (!weight.matrix || weight.shape.size() != 2) return std::nullopt;
  const Target* target = target_of(weight.name);
  if (target == nullptr) return std::nullopt;
  const bool named = std::any_of(lora.targets.begin(), lora.targets.end(), [&](const std::string& name) {
    return name == "all-linear" || name == target->module ||
           std::find(target->parts.begin(), target->parts.end(), name) != target->parts.end();
  });
  if (!named && !lora.targets.empty()) return std::nullopt;
  const std::int64_t ranks = weight.expert ? 1 : tensor, rank = lora.rank;
  const std::int64_t out = weight.shape[0], in = weight.shape[1];
  if (target->row) return AdapterShapes{{rank, in}, {ceil_div(out, ranks), rank}};
  return AdapterShapes{{ceil_div(rank, ranks), in}, {out, rank}};
}

bool has_adapter(const Context& c, const Tensor& weight) {
  return c.adapters.contains(weight.record());
}

Tensor adapter_output(Context& c, const Tensor& input, const Tensor& weight, Cut cut) {
  const auto found = c.adapters.find(weight.record());
  if (found == c.adapters.end()) return {};
  const AdapterWeights& adapter = found->second;
  const std::int64_t ranks = cut == Cut::duplicated ? 1 : c.tensor();
  Tensor low = own_linear(c, input, adapter.in, {}, Cut::duplicated);
  if (cut == Cut::column && ranks > 1)
    low = row_function(c, std::move(low), 0, ranks, gather_features, keep_features);
  Tensor out = own_linear(c, low, adapter.out, {}, Cut::duplicated);
  low.reset();
  if (cut == Cut::row && ranks > 1) {
    out = row_function(c, std::move(out), 0, ranks, gather_features, keep_features);
    if (c.sequence_parallel()) {
      const std::int64_t rows = out.size(0) / ranks;
      out = row_function(c, std::move(out), rows, ranks, own_tokens, all_tokens);
    }
  }
  return mul_scalar(std::move(out));
}

}  // namespace headroom::tape::megatron
