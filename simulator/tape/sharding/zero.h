#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "simulator/tape/core/engine.h"
#include "simulator/tape/modules/model.h"

namespace headroom::tape {

/// What a DeepSpeed engine is told: keys of its configuration (sizes in elements) and its place.
struct ZeroOptions {
  int stage = 0;
  std::int64_t ranks = 1, rank = 0;
  bool trained = true;
  bool first_of_process = true;  ///< no engine was built here before
  DType dtype = DType::fp16;     ///< of weights and gradients
  bool loss_scaling = true;      ///< fp16: gradients are looked through for infinities before each step
  bool overlap_communication = false, contiguous_gradients = true;
  bool offload_optimizer = false, offload_parameters = false, pin_memory = false;
  bool sharded_as_built = false;  ///< stage 3: zero.Init; parameters come one by one, each spread at once
  bool adapters_apart = false;    ///< the optimizer has adapters in a group of their own
  // Of newer releases: 0.17.6, 0.18.3, 0.17.1, 0.18.7, 0.18.5.
  bool whole_bf16_states = false;   ///< stage 0: bf16 is stepped as fp16 is, without scaling
  bool late_buckets = false;        ///< stages 1 and 2: made with a backward's first gradient
  bool checks_bf16 = false;         ///< stages 1 and 2: bf16 gradients too are searched for infinities
  bool flattens_on_device = false;  ///< stages 1 and 2: weights are joined on the device
  bool gathers_in_place = false;    ///< stage 3: a parameter gathered alone becomes what was gathered
  std::int64_t reduce_bucket = 500'000'000;
  std::int64_t prefetch_bucket = 50'000'000, persistence_threshold = 100'000;
  std::int64_t max_live_parameters = 1'000'000'000, max_reuse_distance = 1'000'000'000;
  std::int64_t sub_group = 1'000'000'000;  ///< of this rank's parts, that the optimizer updates at once
  Stream gather_stream = 1, reduce_stream = 2;
  /// Called where the process's communicators come to exist, which is with its first engine: one at the first
  /// broadcast of weights, at stage 3 two (parameters go around in torch's own group).
  std::function<void()> communicator_made;
};

/// A DeepSpeed engine (0.16) around a model whose weights lie on the host: brings them to the device, spreads
/// optimizer states (stage 1), gradients (2) and weights (3) over ranks, and owns backward and step.
/// `parameters()` of the model stay the same tensors; what they lie on changes.
class ZeroEngine {
 public:
  virtual ~ZeroEngine() = default;
  /// deepspeed.initialize() of a model that was spread as it was built; every other engine is made with its model.
  virtual void initialize() {}
  /// engine.backward(loss) of one micro-batch. `last`: of those whose gradients add up to a step's; stages 0
  /// and 1 reduce with it, 2 and 3 with every one.
  virtual void backward(const Tensor& loss, bool last) = 0;
  /// Around a backward that another engine's loss starts and that reaches this one's weights (two models under
  /// one loss): `last` as of backward; afterwards what still waits is reduced.
  virtual void begin_joint_backward(bool /*last*/) {}
  virtual void end_joint_backward() {}
  /// engine.step(); `overflow`: infinities were found, the update is skipped.
  virtual void step(bool overflow) = 0;
  /// The optimizer's states come to exist now (a resumed run).
  virtual void create_states() = 0;
  /// engine.offload_states() and reload_states(): fp32 weights, the optimizer's states and, at stage 3, the
  /// partition of gradients go to pinned memory and back, the bucket goes and is made again. Weights stay, and
  /// so does everything where the optimizer lives on the host.
  virtual void move_states(bool to_device) = 0;
};

/// The engine of a stage. `model` and `engine` must outlive it.
std::unique_ptr<ZeroEngine> make_zero_engine(Model& model, Engine& engine, const ZeroOptions& options);

/// A parameter in its optimizer group.
struct ZeroParameter {
  Tensor* slot = nullptr;
  std::int64_t elements = 0;
  std::int64_t start = 0;  ///< in the group's flat buffer
};

/// Optimizer groups as training scripts make them: weights with decay, adapters among them or apart
/// (`adapters_apart`), then biases and norms without. Only trainable parameters, each group in the order of
/// parameters(); empty groups are left out.
std::vector<std::vector<ZeroParameter>> zero_groups(Model& model, bool adapters_apart);

/// Pinned copies of an engine's tensors, each made when it first leaves and kept from then on.
using ZeroTwins = std::map<const Tensor*, Tensor>;
/// A tensor of an engine's to its pinned copy, or to the device again; an undefined one is left alone.
void zero_move(Tape& tape, Tensor& tensor, bool to_device, ZeroTwins& twins);

/// module.to(device): each parameter, then each buffer, that is not there yet; or buffers alone.
void zero_to_device(Model& model, bool parameters = true);

/// Looks for infinities and NaNs in one gradient: up to 11 bytes an element for a moment.
void zero_check_overflow(const Tensor& gradient);
/// What the engine keeps of a loss until it has stepped: its mean.
Tensor zero_logged_loss(const Tensor& loss);
/// engine.backward's way to the loss that autograd starts from; `loss` stays with the caller, `logged` with
/// the engine until it has stepped.
Tensor zero_scaled_loss(const Tensor& loss, Tensor& logged);
/// One group's norm over all ranks out of `count` norms of gradients: -1 where it is not finite.
Tensor zero_group_norm(Tape& tape, std::int64_t count);
/// The norm, or -1 where it is not finite: worked out without a branch.
Tensor zero_finite_norm(const Tensor& norm);
/// norm.isinf().
Tensor zero_infinite(const Tensor& norm);
/// The factor that clips and unscales one flat gradient.
void zero_clip_factor(Tape& tape);

/// gradient.double().norm(): the norm, 8 bytes.
Tensor zero_norm(const Tensor& gradient);

}  // namespace headroom::tape
