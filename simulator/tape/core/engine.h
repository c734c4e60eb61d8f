#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// PyTorch's autograd engine: the ready node with the highest sequence number runs next. For each node:
/// 1. its formula allocates the gradients; 2. gradients broader than their input are summed, those of another
/// dtype cast; 3. the incoming gradients go; 4. the saved tensors go, in order; 5. the gradients are handed
/// to the next nodes' buffers, adding to what waits there (in place only into a tensor that nobody shares and
/// that is no view).
class Engine {
 public:
  explicit Engine(Tape& tape) : tape_(tape) {}

  /// `roots[i]` receives `gradients[i]`. Runs until every reachable node has run, then the callbacks.
  void run(std::span<const Tensor> roots, std::span<Tensor> gradients);

  /// At the end of the running backward (torch's queue_callback).
  void queue_callback(std::function<void()> callback) { callbacks_.push_back(std::move(callback)); }

  /// torch.autograd.set_detect_anomaly(True): from now on every gradient that a formula gave is looked through for
  /// NaNs before it goes on, a byte an element for a moment.
  void detect_anomaly() { detects_anomaly_ = true; }

 private:
  void count_dependencies(Node* root);
  void evaluate(Node* node);
  void accumulate_leaf(Node* node);
  void validate(Node* node);
  void look_for_nan(Node* node);
  void deliver(const Edge& edge, Stream made_on, Tensor gradient);
  void push_ready(Node* node);

  Tape& tape_;
  std::uint32_t task_ = 0;
  bool detects_anomaly_ = false;
  std::vector<std::pair<std::uint64_t, Node*>> ready_;
  std::vector<Node*> visit_;
  std::vector<std::function<void()>> callbacks_;
};

/// loss.backward(): allocates the gradient of ones (released when the backward returns) and runs the engine
/// on the autograd thread.
void backward(Engine& engine, const Tensor& loss);
/// torch.autograd.backward(tensor, gradient) as called inside a backward (reentrant checkpointing).
void backward(Engine& engine, const Tensor& output, Tensor gradient);

}  // namespace headroom::tape
