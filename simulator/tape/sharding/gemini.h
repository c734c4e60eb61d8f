#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "simulator/job/role.h"
#include "simulator/tape/core/engine.h"
#include "simulator/tape/modules/model.h"
#include "simulator/tape/modules/module_hooks.h"
#include "simulator/tape/sharding/chunk_layout.h"

namespace headroom::tape {

/// What Gemini is told.
struct GeminiOptions {
  ChunkSearch search = {};
  DType dtype = DType::fp16;  ///< of weights and gradients
  GeminiPlacement placement = GeminiPlacement::fixed;
  bool gradient_chunks = false;  ///< gradients have chunks of their own, which add up; else they take the weights'
  bool joins_lists = false;      ///< collectives over lists of tensors (releases up to 0.3)
  bool pin_memory = false;       ///< every part on the device has a pinned copy on the host
  bool loss_scaling = true;
  bool clips = false;
  bool overlaps = false;     ///< reductions have a stream of their own, and all that follows them on it
  Stream reduce_stream = 1;  ///< ... that one
};

/// ColossalAI's Gemini: a model's weights in chunks of one size, each spread over the ranks, with as many chunks of
/// fp32 copies beside them, whether the model is trained or not. A module's chunks are gathered before it runs,
/// forward and backward; what becomes of idle ones is the placement's. Gradients are written over the weights of
/// their chunk, or into a chunk of their own; a chunk of gradients that is full is reduced to this rank's part.
/// Adam's states are those of this rank's parts, from the first step on that is not skipped. Frozen weights beside
/// adapters are in no chunk.
///
/// Without gradients everything gathered is released when the root's forward is over: each token gathers anew.
/// Follows colossalai/zero/gemini (0.3.1 and 0.5.1).
class Gemini : public ModuleHooks, public UnitHooks {
 public:
  /// `model`: on the device, or on the host from where its weights come into the chunks.
  Gemini(Model& model, Engine& engine, const GeminiOptions& options);

  void backward(const Tensor& loss);
  /// The update, unless infinities were found, and zero_grad.
  void step(bool overflow);
  void create_states();

  void enter_container(std::uint32_t) override {}
  void leave_container(std::uint32_t) override {}
  void before_module(std::uint32_t module, Tensor& input) override;
  void after_module(std::uint32_t module, Tensor& output) override;
  void before_forward(int, Tensor&) override {}
  void after_forward(int unit, Tensor& output) override;

 private:
  /// A chunk of one kind of numbers: whole while it is gathered, else this rank's part.
  struct Half {
    DType dtype = DType::fp16;
    Component component = Component::weights;
    Tensor whole;   ///< empty while it is not gathered
    Tensor part;    ///< on the device or on the host; undefined while gathered
    Tensor pinned;  ///< the part's copy
    bool gathered = true;
  };
  /// Adam's moments of one parameter's share of this rank's part.
  struct Moments {
    std::int64_t elements = 0;
    Tensor average, square_average;
  };
  struct Chunk {
    ChunkPlan plan;
    Half weights, wide, gradients;
    std::size_t full = 0;          ///< parameters whose gradients are in it
    bool holds_gradients = false;  ///< ... written over its weights
    bool behind = false;           ///< its idle weights on the host are older than the fp32 copies
    std::vector<Moments> moments;
  };
  struct Parameter {
    Tensor tensor;
    std::size_t chunk = 0;
    std::int64_t start = 0;
  };
  class BeforeBackward;

  bool on_host() const { return options_.placement == GeminiPlacement::host; }
  std::int64_t part(const Chunk& chunk) const { return chunk.plan.elements / options_.search.ranks; }
  void take_over(Model& model);
  void fill(Chunk& chunk, Chunk* before);
  void open(Half& half, const Chunk& chunk);
  void close(Half& half, const Chunk& chunk);
  void find_moments();
  void scatter(Half& half, const Chunk& chunk);
  void to_device(Chunk& chunk);
  void gather(std::size_t chunk);
  void release(std::size_t chunk);
  void enter(std::uint32_t module);
  void evict(const std::vector<std::size_t>& needed);
  void gradient_ready(std::size_t parameter);
  void begin_gradients(Chunk& chunk);
  void reduce(std::size_t chunk, Half& half);
  void look_through(const Tensor& part);
  void make_moments(Chunk& chunk);
  const std::vector<std::size_t>& own(std::uint32_t module) const;

  Tape& tape_;
  Engine& engine_;
  GeminiOptions options_;
  std::vector<Parameter> parameters_;
  std::vector<Chunk> chunks_;
  std::map<std::uint32_t, std::vector<std::size_t>> modules_;  ///< chunks of a module's parameters
  std::vector<std::size_t> accessed_;                          ///< gathered chunks of weights
  bool accumulating_ = false;  ///< an earlier backward's gradients wait for the step
};

}  // namespace headroom::tape
