#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/architecture/architecture.h"
#include "models/base/result.h"
#include "simulator/job/role.h"
#include "simulator/tape/core/checkpoint.h"
#include "simulator/tape/core/tape.h"
#include "simulator/tape/generate/layer_repeats.h"

namespace headroom::tape {

/// How a model is built and run.
struct ModelOptions {
  DType dtype = DType::bf16;  ///< of its weights
  std::optional<DType> frozen{};  ///< of linear weights, which are then not trained: nf4
  bool trainable = true;
  bool training = true;  ///< module.train(): checkpointing and dropout act only then
  bool dropout = false;  ///< residual dropout of the family is on, as the config has it
  AttentionImplementation attention = AttentionImplementation::sdpa;
  Recompute recompute;
  HeadKind head = HeadKind::language_model;
  std::int64_t packed_sequences = 1;  ///< flash_varlen: sequences in the packed tokens of a forward
  std::int64_t ulysses = 1;           ///< ranks that share the tokens of a forward
  std::int64_t expert_ranks = 1;      ///< over which routed experts are dealt out
  std::int64_t token_ranks = 1;       ///< tensor-parallel ranks that share the tokens between branches
  bool divides_output_gradients = false;  ///< what comes back to a forward's result is divided, in a copy
  bool adapters = true;               ///< their branch runs; false: PEFT's disable_adapter()
};

/// A parameter's place in its module. `layer` is the decoder layer, -1 outside. Order of slots is that of
/// PyTorch's `parameters()`; a tied weight is listed once.
struct ParameterSlot {
  std::string name;  ///< Transformers' name: model.layers.0.self_attn.q_proj.weight
  Tensor* tensor = nullptr;
  int layer = -1;
  /// kEmbeddingUnit, kPositionUnit or kHeadUnit: a table that can be a sharding unit of its own in models
  /// whose head is not tied.
  int table = 0;
  bool expert = false;  ///< of routed experts
};

/// Unit numbers of the embeddings of tokens and of positions and of the head for `UnitHooks`.
inline constexpr int kEmbeddingUnit = -2, kPositionUnit = -3, kHeadUnit = -4;
constexpr bool is_table(int unit) {
  return unit <= kEmbeddingUnit;
}

struct LinearLayer;

/// A linear that adapters can stand beside; the head is none.
struct NamedLinear {
  std::string name;
  LinearLayer* layer = nullptr;
  int layer_index = -1;
};

/// A key/value cache that grows by concatenation (Transformers' DynamicCache).
struct KvCache {
  struct LayerCache {
    Tensor keys, values;
    Tensor window;          ///< a sliding layer's window as a number on the device
    std::int64_t seen = 0;  ///< tokens it was given
    Tensor convolution, recurrence;  ///< of a layer that keeps a state instead
  };
  std::vector<LayerCache> layers;
  std::int64_t length = 0;  ///< tokens in it

  /// cat(old, new) for one layer; the old tensors go as each new one stands.
  void update(Tape& tape, std::size_t layer, const Tensor& keys, const Tensor& values);
  /// The same for a layer that keeps no more than the last `window` - 1 tokens: the joined tensors are handed
  /// out in place of `keys` and `values`, and stay until the next token behind the views that are kept.
  void slide(Tape& tape, std::size_t layer, Tensor& keys, Tensor& values, std::int64_t window);
  /// The same for more tokens whose keys and values nobody made.
  void grow(Tape& tape, std::size_t layer, std::int64_t tokens = 1);
  /// Whether every layer keeps all tokens.
  bool keeps_all() const;
  /// As the cache object dies: last layer first, keys then values.
  void clear();

 private:
  /// The layer's cache; of nothing when it is new. Both empty starts have `dtype`, the keys': values are
  /// promoted to it.
  LayerCache& started(Tape& tape, std::size_t layer, DType dtype, bool sliding);
};

/// What a decoder is given. Masks of ones need not be materialised by training programs.
struct ModelInput {
  Tensor ids;             ///< [B,T] int64
  Tensor attention_mask;  ///< [B,columns] int64, or undefined
  Tensor position_ids;    ///< [B,T] int64, or undefined: the model makes them
  KvCache* cache = nullptr;
  std::int64_t last_logits = 0;           ///< logits of only the last n positions; 0: all
  bool padded = false;                    ///< the mask has zeros: attention needs a mask of its own
  std::vector<Tensor>* hidden = nullptr;  ///< output_hidden_states: each layer's input and the last state
};

/// Called around decoder layers (unit = layer index), embeddings and the head (`is_table`) and the whole model
/// (unit = -1): where sharding runtimes gather and reshard. Not called while a checkpoint recomputes
/// unless `in_recompute`.
class UnitHooks {
 public:
  virtual ~UnitHooks() = default;
  virtual void before_forward(int unit, Tensor& input) = 0;
  virtual void after_forward(int unit, Tensor& output) = 0;
  /// Around a module inside of a layer whose one parameter can be a unit of its own: an adapter's. Also called
  /// while a checkpoint recomputes.
  virtual void before_leaf(const Tensor& /*parameter*/) {}
  virtual void after_leaf(const Tensor& /*parameter*/, Tensor& /*output*/) {}
};

/// A model as a program: its parameters, and a forward in the order of Transformers' code. One file a family
/// of code shape; `make_model` picks it by the architecture's blocks.
class Model {
 public:
  Model(Tape& tape, const Architecture& architecture, std::string path, const ModelOptions& options);
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// Hidden states [B,T,h] after the final norm.
  virtual Tensor hidden_states(const ModelInput& input) = 0;
  /// The head on top: logits [B,T,V] (language_model) or values [B,T] (scalar).
  Tensor forward(const ModelInput& input);
  /// The body with its hooks and `top` in place of the head.
  Tensor forward(const ModelInput& input, const std::function<Tensor(Tensor hidden)>& top);
  /// The head's weight: [V,h], the embedding's table when tied.
  const Tensor& head_table() const;

  std::vector<ParameterSlot>& parameters() { return parameters_; }
  /// Tensors that `.to(device)` moves beside the parameters.
  const std::vector<Tensor*>& buffers() const { return buffers_; }
  void register_buffer(Tensor& buffer);
  /// Parameters and buffers as `.to(device)` comes to them, module by module.
  void in_module_order(const std::function<void(const Tensor&)>& visit) const;
  /// In module order.
  std::vector<NamedLinear>& linears() { return linears_; }
  ModelOptions& options() { return options_; }
  const ModelOptions& options() const { return options_; }
  const Decoder& decoder() const { return decoder_; }
  const Architecture& architecture() const { return architecture_; }
  Tape& tape() { return tape_; }
  Engine* engine = nullptr;  ///< for reentrant checkpointing
  UnitHooks* hooks = nullptr;
  bool embeddings_require_grad = false;  ///< enable_input_require_grads()

  /// The module label of `name` in this model.
  std::uint32_t intern(const std::string& name) { return tape_.modules().intern(path_ + name); }

 protected:
  friend void register_parameter(Model&, const std::string&, Tensor&, const Shape&, int, std::optional<DType>);
  /// Builds the head after the body: lm_head (allocated, then dropped when tied) or v_head.
  void build_head(const Tensor& embedding, const std::string& name = "lm_head");
  /// The token embedding with hooks.
  Tensor embed(std::uint32_t module, const Tensor& table, const Tensor& ids,
               const std::function<Tensor(Tensor)>& scaled = {});
  /// The embedding of positions with hooks; `rows` makes the indices inside them. `mask`: also an argument.
  Tensor embed_positions(std::uint32_t module, const Tensor& table, const std::function<Tensor()>& rows,
                         Tensor mask = {});
  /// A decoder layer with hooks and, in training, checkpointing around it.
  Tensor run_layer(int index, const Tensor& hidden, std::vector<Tensor> captured, const Region& region,
                   std::size_t positional = 0);

  Tape& tape_;
  const Architecture architecture_;
  const Decoder& decoder_;
  std::string path_;
  ModelOptions options_;
  std::vector<ParameterSlot> parameters_;
  std::vector<Tensor*> buffers_;
  /// For each buffer the parameter that is registered next; null: none.
  std::vector<const Tensor*> after_buffers_;
  std::vector<NamedLinear> linears_;
  const Tensor* tied_ = nullptr;
  Tensor head_weight_, head_bias_;
  std::shared_ptr<LinearLayer> scalar_head_;
  std::uint32_t head_module_ = 0;
  bool logits_scaled_ = false;  ///< multiplied by a number
  LayerRepeats repeats_;
  std::vector<Tensor>* kept_hidden_ = nullptr;  ///< the running forward's `ModelInput::hidden`

 private:
  Tensor body(const ModelInput& input);
  void divide_gradient_of(const Tensor& out);
};

/// Registers a parameter: called by layers while they are built.
void register_parameter(Model& model, const std::string& name, Tensor& slot, const Shape& shape, int layer,
                        std::optional<DType> dtype = {});

/// The program for an architecture, its weights allocated in construction order; an error when no program
/// covers the family's blocks.
Result<std::unique_ptr<Model>> make_model(Tape& tape, const Architecture& architecture,
                                          const std::string& path, const ModelOptions& options);

}  // namespace headroom::tape
