#include "simulator/tape/core/checkpoint.h"

#include "simulator/tape/core/autocast.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape {
namespace {

const std::uint16_t kInputSaver = operation_name("_NoopSaveInputsBackward");
const std::uint16_t kCheckpointBackward = operation_name("CheckpointFunctionBackward");

void no_backward(Node&, std::span<Tensor>, std::span<Tensor>) {}

/// Modes as they were in the first run, for the time of a recomputation inside a backward formula.
class RecomputeModes {
 public:
  RecomputeModes(Tape& tape, const AutocastState& then)
      : tape_(tape),
        operation_(tape.operation()),
        label_(tape.label()),
        grad_(tape, true),
        autocast_(tape, then.enabled, then.dtype) {
    tape.set_operation(0);
    tape.label().component = Component::activations;
  }
  ~RecomputeModes() {
    tape_.set_operation(operation_);
    tape_.label() = label_;
  }

 private:
  Tape& tape_;
  std::uint16_t operation_;
  Label label_;
  GradMode grad_;
  Autocast autocast_;  ///< a region of its own: the weights' casts go with it
};

/// What a region is given beside its input. Keyword arguments stay with the closure, positional ones are
/// saved by the node that saves the input.
class Arguments {
 public:
  Arguments(std::vector<Tensor> captured, std::size_t positional)
      : captured_(std::move(captured)), first_(captured_.size() - positional) {}
  ~Arguments() {
    for (Tensor& tensor : captured_) tensor.reset();
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  std::span<const Tensor> all() const { return captured_; }
  /// Called once the first run is over.
  void save_positional(Tape& tape, Node& node) {
    for (std::size_t i = first_; i < captured_.size(); ++i) {
      saved_.push_back(captured_[i].defined());
      if (captured_[i].defined()) tape.save(&node, captured_[i]);
      captured_[i].reset();
    }
  }
  std::vector<Tensor> unpacked(const Node& node) const {
    std::vector<Tensor> out = captured_;
    std::size_t next = 1;
    for (std::size_t i = 0; i < saved_.size(); ++i)
      if (saved_[i]) out[first_ + i] = node.unpack(next++);
    return out;
  }

 private:
  std::vector<Tensor> captured_;
  std::size_t first_;  ///< of the positional ones
  std::vector<bool> saved_;
};

AutocastState modes_of(Tape& tape) {
  const AutocastState& state = tape.autocast();
  AutocastState copy;
  copy.enabled = state.enabled;
  copy.dtype = state.dtype;
  return copy;
}

class Frame : public SavedTensorHooks {
 public:
  Frame(Tape& tape, Region region, std::vector<Tensor> captured, std::size_t positional)
      : tape_(tape),
        region_(std::move(region)),
        arguments_(std::move(captured), positional),
        modes_(modes_of(tape)) {}

  void keep_input(const Tensor& input) {
    saver_ = NodeRef(tape_.node(kInputSaver, no_backward, {}));
    tape_.save(saver_.get(), input);
    input_requires_grad_ = input.requires_grad();
  }

  Tensor run(const Tensor& input) { return region_(input, arguments_.all()); }
  /// Under the hooks that surround the region, as the input.
  void keep_positional() { arguments_.save_positional(tape_, *saver_.get()); }

  std::uint64_t pack(const Tensor&) override {
    gone_.push_back(false);
    return count_++;
  }

  Tensor unpack(std::uint64_t handle) override {
    if (!recomputed_) recompute();
    return std::move(tensors_[handle]);
  }

  void release(std::uint64_t handle) override {
    gone_[handle] = true;
    if (handle < tensors_.size()) tensors_[handle].reset();
  }

 private:
  /// Collects what the second run saves and stops it when all is there.
  class Collector : public SavedTensorHooks {
   public:
    explicit Collector(Frame& frame) : frame_(frame) {}
    std::uint64_t pack(const Tensor& tensor) override {
      const bool wanted = !frame_.gone_[frame_.tensors_.size()];
      frame_.tensors_.push_back(wanted ? frame_.tape_.alias(tensor, tensor.shape(), 0, tensor->view) : Tensor{});
      if (frame_.tensors_.size() == frame_.count_) frame_.tape_.set_stopped(true);
      return 0;
    }
    Tensor unpack(std::uint64_t) override { return {}; }
    void release(std::uint64_t) override {}

   private:
    Frame& frame_;
  };

  void recompute() {
    recomputed_ = true;
    tensors_.reserve(count_);
    const RecomputeModes modes(tape_, modes_);
    tape_.saved_tensor_hooks().push_back(std::make_shared<Collector>(*this));
    {
      const Tensor input = saver_->unpack(0);
      Tensor again = tape_.alias(input, input.shape(), 0, input->view);
      again->requires_grad = input_requires_grad_;
      const std::vector<Tensor> given = arguments_.unpacked(*saver_.get());
      Tensor output = region_(again, given);
      tape_.set_stopped(false);
    }
    tape_.saved_tensor_hooks().pop_back();
  }

  Tape& tape_;
  Region region_;
  NodeRef saver_;
  Arguments arguments_;
  AutocastState modes_;
  std::size_t count_ = 0;
  bool recomputed_ = false, input_requires_grad_ = false;
  std::vector<Tensor> tensors_;
  std::vector<bool> gone_;  ///< by placeholder: the node that saved it is no more
};

class Reentrant : public Function {
 public:
  Reentrant(Tape& tape, Engine& engine, Region region, std::vector<Tensor> captured, std::size_t positional)
      : tape_(tape),
        engine_(engine),
        region_(std::move(region)),
        arguments_(std::move(captured), positional),
        modes_(modes_of(tape)) {}
  void save(Node& node) { arguments_.save_positional(tape_, node); }
  void backward(Node& node, std::span<Tensor> incoming, std::span<Tensor> outgoing) override {
    const Tensor input = node.unpack(0);
    const std::vector<Tensor> given = arguments_.unpacked(node);
    Tensor leaf, output;
    std::vector<Tensor> leaves = given;
    const std::span<Tensor> differentiable = std::span(leaves).last(outgoing.size() - 1);
    {
      const RecomputeModes modes(tape_, modes_);
      leaf = detach(input);
      leaf->requires_grad = true;
      leaf->view = false;  // as autocast sees it: its cast is kept like a weight's
      for (std::size_t i = 0; i < differentiable.size(); ++i)
        if (node.wants(i + 1)) (differentiable[i] = detach(differentiable[i]))->requires_grad = true;
      output = region_(leaf, leaves);
    }
    tape::backward(engine_, output, incoming[0]);
    outgoing[0] = leaf.grad();
    for (std::size_t i = 0; i < differentiable.size(); ++i)
      if (node.wants(i + 1)) outgoing[i + 1] = differentiable[i].grad();
    drop(leaf, output);
  }

 private:
  Tape& tape_;
  Engine& engine_;
  Region region_;
  Arguments arguments_;
  AutocastState modes_;
};

/// Host copies by handle; freed slots are reused.
class HostCopies : public SavedTensorHooks {
 public:
  explicit HostCopies(bool spares_weights) : spares_weights_(spares_weights) {}
  std::uint64_t pack(const Tensor& tensor) override {
    Tape& tape = tensor.tape();
    const Component holds = tensor->storage->label.component;
    const bool spared =
        spares_weights_ && (holds == Component::weights || holds == Component::gathered_parameters);
    if (!spared) {
      const GradMode no_grad(tape, false);
      const ComponentScope component(tape, Component::staging);
      const Tensor packed = contiguous(tensor);
    }
    const ComponentScope component(tape, Component::activations);
    std::uint64_t handle = copies_.size();
    if (!free_.empty()) {
      handle = free_.back();
      free_.pop_back();
    } else {
      copies_.emplace_back();
    }
    copies_[handle] = spared ? tensor : to_host(tensor, HostKind::pinned);
    return handle;
  }
  Tensor unpack(std::uint64_t handle) override {
    const Tensor& kept = copies_[handle];
    return kept->storage->device == Device::gpu ? kept : to_device(kept);
  }
  void release(std::uint64_t handle) override {
    copies_[handle].reset();
    free_.push_back(handle);
  }

 private:
  bool spares_weights_;
  std::vector<Tensor> copies_;
  std::vector<std::uint64_t> free_;
};

}  // namespace

Tensor checkpoint(Tape& tape, Region region, const Tensor& input, std::vector<Tensor> captured,
                  std::size_t positional) {
  tape.memory().host_work(HostWork::checkpoint, 1);
  if (!tape.grad_enabled()) return region(input, captured);
  const auto frame = std::make_shared<Frame>(tape, std::move(region), std::move(captured), positional);
  frame->keep_input(input);
  tape.saved_tensor_hooks().push_back(frame);
  Tensor output = frame->run(input);
  tape.saved_tensor_hooks().pop_back();
  frame->keep_positional();
  return output;
}

Tensor checkpoint_reentrant(Tape& tape, Engine& engine, Region region, const Tensor& input,
                            std::vector<Tensor> captured, std::size_t positional) {
  tape.memory().host_work(HostWork::checkpoint, 1);
  if (!tape.grad_enabled()) return region(input, captured);
  Tensor output;
  {
    const GradMode no_grad(tape, false);
    output = region(input, captured);
  }
  if (!input.requires_grad()) return output;
  // Positional arguments get gradients like the input.
  std::vector<const Tensor*> inputs = {&input};
  const auto differentiable = [](const Tensor& one) { return one.defined() && one.requires_grad(); };
  if (std::any_of(captured.end() - static_cast<std::ptrdiff_t>(positional), captured.end(), differentiable))
    for (std::size_t i = captured.size() - positional; i < captured.size(); ++i) inputs.push_back(&captured[i]);
  Node* node = tape.node(kCheckpointBackward, nullptr, inputs);
  auto function =
      std::make_unique<Reentrant>(tape, engine, std::move(region), std::move(captured), positional);
  tape.save(node, input);
  function->save(*node);
  node->function = std::move(function);
  tape.attach(output, node);
  return output;
}

SaveOnCpu::SaveOnCpu(Tape& tape, bool spares_weights) : tape_(tape) {
  tape.saved_tensor_hooks().push_back(std::make_shared<HostCopies>(spares_weights));
}

SaveOnCpu::~SaveOnCpu() {
  tape_.saved_tensor_hooks().pop_back();
}

}  // namespace headroom::tape
