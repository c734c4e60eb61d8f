#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/architecture/read.h"
#include "models/document/document.h"
#include "simulator/memory/recording_memory.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/sharding/zero.h"

namespace headroom::tape::test {

inline Architecture tiny() {
  const auto config = parse_document(
      R"({"model_type": "opt", "vocab_size": 48, "hidden_size": 16, "ffn_dim": 32, "num_hidden_layers": 1,
          "num_attention_heads": 2, "max_position_embeddings": 30, "word_embed_proj_dim": 16})",
      "tiny");
  return make_architecture(*config, "tiny").value();
}

/// Elements of a parameter and whether its weights decay.
struct TinyParameter {
  std::int64_t elements = 0;
  bool decays = true;
};

/// The parameters of `ZeroRun`'s model in the order of named_parameters(): OPT with one layer, 48 tokens, 30
/// positions (and OPT's two more), width 16, 32 inside.
inline const std::vector<TinyParameter>& tiny_parameters() {
  static const std::vector<TinyParameter> all = {
      {48 * 16},   {32 * 16},   {16, false}, {16, false},                          // tables, final norm
      {16 * 16},   {16, false}, {16 * 16},   {16, false},                          // keys, values
      {16 * 16},   {16, false}, {16 * 16},   {16, false},                          // queries, output
      {16, false}, {16, false}, {32 * 16},   {32, false}, {16 * 32}, {16, false},  // norm, fc1, fc2
      {16, false}, {16, false}};                                                   // norm
  return all;
}

/// Elements of the weights with decay, then of the others, as optimizer groups have them.
inline std::vector<std::vector<std::int64_t>> tiny_groups() {
  std::vector<std::vector<std::int64_t>> groups(2);
  for (const TinyParameter& p : tiny_parameters()) groups[p.decays ? 0 : 1].push_back(p.elements);
  return groups;
}

/// A DeepSpeed engine around that model, and what it allocates.
class ZeroRun {
 public:
  explicit ZeroRun(const ZeroOptions& options, bool checkpoints = false);

  /// Bytes of every allocation that `work` makes on `stream`, in order.
  std::vector<Bytes> allocations(const std::function<void()>& work, Stream stream = 0);
  /// The same of the engine's construction.
  const std::vector<Bytes>& built() const { return built_; }
  /// A forward in training mode; the loss, in the model's dtype.
  Tensor loss();
  ZeroEngine& engine() { return *zero_; }
  const RecordingMemory& memory() const { return memory_; }

 private:
  RecordingMemory memory_;
  Tape tape_{memory_};
  Engine engine_{tape_};
  std::unique_ptr<Model> model_;
  std::vector<Bytes> built_;
  std::unique_ptr<ZeroEngine> zero_;
};

inline ZeroRun::ZeroRun(const ZeroOptions& options, bool checkpoints) {
  ModelOptions model;
  model.dtype = options.dtype;
  model.trainable = options.trained;
  model.training = options.trained;
  model.dropout = false;
  if (checkpoints) model.recompute.kind = RecomputeKind::full;
  tape_.set_stopped(true);  // on the host
  model_ = make_model(tape_, tiny(), "model", model).value();
  tape_.set_stopped(false);
  built_ = allocations([&] { zero_ = make_zero_engine(*model_, engine_, options); });
}

inline std::vector<Bytes> ZeroRun::allocations(const std::function<void()>& work, Stream stream) {
  const std::size_t first = memory_.events().size();
  work();
  std::vector<Bytes> out;
  for (std::size_t i = first; i < memory_.events().size(); ++i) {
    const MemoryEvent& event = memory_.events()[i];
    if (event.kind == MemoryEvent::Kind::allocate && event.stream == stream) out.push_back(event.bytes);
  }
  return out;
}

inline Tensor ZeroRun::loss() {
  ModelInput input;
  input.ids = tape_.empty({2, 8}, DType::int64, 0);
  return mean(model_->forward(input));
}

}  // namespace headroom::tape::test
