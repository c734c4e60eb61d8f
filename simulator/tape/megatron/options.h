#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "models/sharding/vocabulary.h"
#include "simulator/job/role.h"
#include "simulator/tape/core/engine.h"
#include "simulator/tape/megatron/process_buffers.h"

namespace headroom::tape::megatron {

/// What one rank's part of a Megatron-Core model is made for.
struct Options {
  Parallel parallel;
  MegatronSwitches switches;
  Recompute recompute;
  VocabularyRule vocabulary;
  HeadKind head = HeadKind::language_model;
  std::int64_t stage = 0;  ///< of the pipeline
  DType dtype = DType::bf16;
  bool trainable = true;
  AttentionImplementation attention = AttentionImplementation::transformer_engine;
  std::optional<LoraSpec> lora;  ///< adapters beside frozen weights
  std::string role, modules;     ///< whose weights these are, and whose modules they run in
};

/// The two matrices beside a frozen weight, this rank's parts.
struct AdapterWeights {
  Tensor in, out;
};

/// What every layer of a stage needs.
struct Context {
  Tape& tape;
  Engine& engine;
  ProcessBuffers& process;
  Options options;
  std::int64_t sequences = 1;  ///< packed in the running micro-batch; with Megatron's own layers its batch
  std::map<const TensorRecord*, AdapterWeights> adapters{};  ///< by the frozen weight
  /// What each router's last probabilities are, by its weight: dispatchers keep them until the next ones, and
  /// with them their graph, which holds the input that a recomputed layer was given, and its gradient.
  std::map<const TensorRecord*, Tensor> routes{};
  bool training = true;  ///< the model is in training mode; in evaluation residuals are added in place

  bool local() const { return options.switches.layers == MegatronLayers::local; }
  /// Experts are modules of their own; else one product for all of a rank's.
  bool experts_apart() const { return local() || !options.switches.grouped_experts; }
  std::int64_t tensor() const { return options.parallel.tensor; }
  /// Activations between the matrix products are split over the tensor ranks too.
  bool sequence_parallel() const { return options.parallel.sequence && tensor() > 1; }
  std::int64_t token_split() const { return sequence_parallel() ? tensor() : 1; }
};

}  // namespace headroom::tape::megatron
