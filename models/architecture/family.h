#pragma once

#include <span>
#include <string>
#include <string_view>

#include "models/architecture/architecture.h"
#include "models/architecture/config.h"
#include "models/architecture/tensor_writer.h"

namespace headroom {

/// One `model_type`. Adding one: a file under families/ that defines a Family, and its line in family.cc.
struct Family {
  std::string_view name;         ///< model_type
  std::string_view layer_class;  ///< the decoder layer's class, the default wrapping unit
  /// Fills the decoder (and vision tower) from the config; errors stay in the config.
  void (*describe)(Config& config, Architecture& model);
  /// Writes the tensors of the model described, in Transformers' order.
  void (*write)(TensorWriter& out);
};

/// All families, in alphabetical order of their names.
std::span<const Family* const> families();

/// The family called `name`; nullptr when unknown.
const Family* find_family(std::string_view name);

/// The known name nearest to `name`; empty when none is near.
std::string nearest_family(std::string_view name);

}  // namespace headroom
