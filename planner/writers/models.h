#pragma once

#include <string>

#include "models/architecture/architecture.h"
#include "models/kv_cache/kv_cache.h"

namespace headroom::writers {

/// The known families and public models, as text.
std::string model_list_table();

/// `headroom.models/1`: families by name, and models with name, family, parameters and source of their
/// values.
std::string model_list_json();

/// One model: totals, KV cache, and its tensors with `*` for indices, alike ones counted.
std::string model_table(const Architecture& model, const KvCache& cache);

/// `headroom.models/1`: model, family, total_parameters, trainable_parameters, weight_bytes,
/// kv_bytes_per_token and tensors (name with `*` for indices, shape, count of such tensors, dtype, tied_to or
/// null); buffers apart.
std::string model_json(const Architecture& model, const KvCache& cache);

}  // namespace headroom::writers
