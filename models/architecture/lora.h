#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/architecture/architecture.h"
#include "models/base/result.h"

namespace headroom {

/// Low-rank adapters, with PEFT's meaning of every field.
struct LoraSpec {
  std::int64_t rank = 0;
  double alpha = 16;
  /// Modules: `q_proj` is every module whose name is or ends in it, `.q_proj`; {"all-linear"} is every linear
  /// but the language-model (or sequence-classification) head, those of vision towers included; none: PEFT's
  /// default for the family.
  std::vector<std::string> targets{};
  std::vector<std::string>
      saved_modules{};        ///< modules_to_save: trained whole, as a copy beside the frozen original
  DType dtype = DType::fp32;  ///< of the adapters: PEFT keeps them in fp32 over a 16-bit base
  bool dropout = false;       ///< what an adapter is given is dropped out in training
  bool rest_trains = false;   ///< all but the weights beside adapters trains too; PEFT freezes it
  bool operator==(const LoraSpec&) const = default;
};

/// Whether `tensor` is the weight of a module that gets an adapter.
bool takes_adapter(const Architecture& model, const Tensor& tensor, const LoraSpec& spec);

/// Freezes the model and adds its adapters, each after the weight it stands beside: `M.lora_A.default.weight`
/// [rank, in] and `M.lora_B.default.weight` [out, rank] for a linear `M.weight`; `M.lora_embedding_A` [rank,
/// rows] and `M.lora_embedding_B` [columns, rank] for an embedding; `M.modules_to_save.default.…` for saved
/// modules, among them the head of a classifier. Errors: a rank below 1, targets that match nothing, a family
/// for which PEFT has no default. O(tensors × targets).
Status add_lora(Architecture& model, const LoraSpec& spec);

/// Freezes every parameter of the modules named, `M` standing for each module whose dotted name holds it as a
/// part
/// (`visual`, `model.embed_tokens`, `layers.0`). An error when a name matches nothing.
Status freeze(Architecture& model, const std::vector<std::string>& modules);

}  // namespace headroom
