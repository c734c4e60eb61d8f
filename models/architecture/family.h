#pragma once

#include <span>
#include <string>
#include <string_view>

#include "models/architecture/architecture.h"
#include "models/architecture/config.h"
#include "models/architecture/tensor_writer.h"

namespace headroom {

/// What a family's configuration and code in Transformers 5.17 have beside their tensors.
struct FamilyFacts {
  bool begin_token = true;  ///< its configuration has a `bos_token_id` by default
  /// Layers call dropout as a function: setting nn.Dropout modules to zero does not reach it.
  bool functional_dropout = false;
  /// Dropout is on by default under names of its own (attn_pdrop, resid_pdrop): scripts that switch off
  /// `dropout` and `attention_dropout` do not reach it.
  bool own_dropout_names = false;
};

/// One `model_type`. Adding one: a file under families/ that defines a Family, and its line in family.cc.
struct Family {
  std::string_view name;         ///< model_type
  std::string_view layer_class;  ///< the decoder layer's class, the default wrapping unit
  /// Fills the decoder (and vision tower) from the config; errors stay in the config.
  void (*describe)(Config& config, Architecture& model);
  /// Writes the tensors of the model described, in Transformers' order.
  void (*write)(TensorWriter& out);
  FamilyFacts facts = {};
};

/// All families, in alphabetical order of their names.
std::span<const Family* const> families();

/// The family called `name`; nullptr when unknown.
const Family* find_family(std::string_view name);

/// The facts of a family; the defaults when it is unknown.
FamilyFacts family_facts(std::string_view name);

/// The known name nearest to `name`; empty when none is near.
std::string nearest_family(std::string_view name);

}  // namespace headroom
