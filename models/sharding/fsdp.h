#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/architecture/architecture.h"

namespace headroom {

/// Which modules become FSDP units of their own; the rest belongs to the root.
struct FsdpPolicy {
  bool layers = true;              ///< every decoder layer and vision block
  bool untied_embeddings = false;  ///< each embedding module, if the head is not tied to one (verl's FSDP2)
  bool trainable_leaves =
      false;  ///< each linear whose weight is trained: LoRA's adapters (PEFT's policy, FSDP1)
};

/// Parameters that are gathered, used and freed together.
struct FsdpUnit {
  std::string name;  ///< module: model.layers.3; empty: the root
  Place place = Place::layer;
  std::int32_t layer = -1;  ///< decoder layer or vision block; -1: none
  std::vector<std::int32_t>
      tensors;                ///< indices into Architecture::tensors, in order; no buffers, tied ones once
  std::int64_t elements = 0;  ///< unsharded
};

/// The units in order of their modules, a unit before those nested in it, the root first: also when
/// everything is wrapped and it holds only the final norm. O(tensors).
std::vector<FsdpUnit> fsdp_units(const Architecture& model, const FsdpPolicy& policy);

/// FSDP1: a unit's parameters as one flat parameter.
struct FlatShard {
  std::int64_t elements = 0;  ///< of the unit, alignment included
  std::int64_t padding = 0;   ///< up to a multiple of the ranks
  std::int64_t local = 0;     ///< on every rank: (elements + padding) / ranks
};

/// `align_bytes`: 16 with use_orig_params (each parameter starts at a multiple), else 0.
FlatShard flat_shard(const Architecture& model, const FsdpUnit& unit, std::int64_t ranks,
                     std::int64_t align_bytes, DType dtype);

/// FSDP2: each parameter cut along dimension 0 as torch.chunk cuts: ceil(rows / ranks) rows a rank, the last
/// ones fewer or none. The shape of the local tensor on `rank`.
std::vector<std::int64_t> row_shard_shape(const std::vector<std::int64_t>& shape, std::int64_t rank,
                                          std::int64_t ranks);

/// Elements that FSDP2 stores for the parameter on every rank, padding included: a full chunk.
std::int64_t row_shard_elements(const std::vector<std::int64_t>& shape, std::int64_t ranks);

/// Of a whole unit under FSDP2.
std::int64_t row_shard_elements(const Architecture& model, const FsdpUnit& unit, std::int64_t ranks);

}  // namespace headroom
