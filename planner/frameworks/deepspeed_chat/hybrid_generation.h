#pragma once

#include <cstdint>
#include <vector>

#include "simulator/tape/modules/model.h"
#include "simulator/trainer/store/store.h"

namespace headroom::deepspeed_chat {

/// The actor in DeepSpeed's hybrid engine, from its making to its end: layers run as inference kernels over the
/// training weights, whose work lies in a workspace that the kernels take themselves (simulator/engine/hybrid.h).
/// PyTorch's allocator sees what stands around the layers: embeddings, the last norm, logits.
///
/// Under stage 3 weights are gathered: all at once for the whole generation (`sync.kind` of the engine
/// full_parameters, the default), layer by layer in each forward (layers; --unpin_actor_parameters), or, where ranks
/// share the layers (`tensor` above 1), some layers at once (`sync.bucket` bytes of them; --tp_gather_partition_size)
/// to be cut into each rank's part. Adapters are added to their weights first, one weight after the other.
///
/// Seconds are those of reading the weights once a token; keys and values are left out.
/// Source: deepspeed/runtime/hybrid_engine.py of DeepSpeed 0.16.
class HybridGeneration {
 public:
  HybridGeneration(trainer::Store& store, const Engine& engine);

  /// Logits of `input`, as the model's own forward would give them.
  tape::Tensor forward(const tape::ModelInput& input);

 private:
  /// One layer's weights, or what is in no layer.
  struct Unit {
    std::vector<std::int64_t> elements;
    std::vector<tape::Tensor> weights;  ///< gathered
    std::int64_t all() const;
  };

  void list_units();
  /// Whole weights, one after the other.
  void gather(Unit& unit);
  void gather_parts();
  void add_adapters();
  void read(const Unit& unit, const tape::Tensor& into);

  trainer::Store& store_;
  const Engine& engine_;
  tape::Tape& tape_;
  bool spread_ = false;
  Unit outside_;
  std::vector<Unit> layers_;
};

}  // namespace headroom::deepspeed_chat
