#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "simulator/tape/sharding/runtime.h"

namespace headroom::tape {

/// PyTorch's FSDP1 (FullyShardedDataParallel with flat parameters, FULL_SHARD): all parameters of a unit
/// (decoder layer; the rest in the root) lie in one flat tensor, padded to equal parts. Parameters are views
/// of the gathered flat tensor through one split, so a unit's gradients are joined into one flat gradient
/// when the last of them exists.
///
/// Follows torch/distributed/fsdp of PyTorch 2.x allocation by allocation:
///  * wrap: parameters (made on the host: brought here one by one, then broadcast together in a copy), the flat
///    parameter, this rank's part; the parameters go last.
///  * first use: every tensor that units will use later is made once and emptied.
///  * unshard: this rank's part in the compute dtype (pre-unshard stream); then the host waits until the
///  device
///    has passed the free of the unit before the last (limit_all_gathers, two in flight), so that it runs at
///    most that far ahead; then the gathered flat parameter (unshard stream).
///  * reshard: the gathered flat parameter's storage is emptied. The root keeps it to the end of the
///    backward, and beyond a pass without backward when `root_stays_gathered`.
///  * reduce: the flat gradient in the reduce dtype, a padded copy if the length does not divide, this rank's
///    part.
///  * leaves that are wrapped by themselves (adapters): units inside of a unit, gathered and let go around their own
///    module, also while a checkpoint recomputes. They count among the two in flight, so that the host runs two
///    of them ahead and no layer is gathered before the last one is nearly done. In time alone: what is held is
///    that of two units in flight, for how much less it is depends on the device's pace.
///  * views of a flat parameter belong to the gather stream, and so do the gradients that come out of them.
///  * state dict: units are gathered in the stored dtype, the root around the layers; each parameter is cloned
///    and its part of the clone copied.
///  * one rank: nothing is gathered or scattered (NO_SHARD): a copy in the compute dtype, a gradient in the
///    reduce dtype; the root is resharded as others are. Between wrapping (or a state dict) and the next use
///    modules hold views of the flat parameter, which keep its memory when it moves to the host.
class Fsdp1 : public ShardingRuntime {
 public:
  Fsdp1(Model& model, Engine& engine, const ShardingOptions& options);

  void before_forward(int unit, Tensor& input) override;
  void after_forward(int unit, Tensor& output) override;
  void before_leaf(const Tensor& parameter) override;
  void after_leaf(const Tensor& parameter, Tensor& output) override;
  std::vector<Tensor> shards() override;
  void set_gradient_sync(bool sync) override { sync_ = sync; }
  void offload(HostKind kind) override;
  void load() override;
  void end_pass() override;
  std::vector<StateTensor> state_dict(bool to_host) override;
  void summon_adapters(bool layer_by_layer) override;

 private:
  struct View {
    Tensor* slot = nullptr;  ///< the module's attribute
    Shape shape;
    std::int64_t offset = 0;  ///< elements into the flat parameter
    std::size_t order = 0;    ///< among the model's `parameters()`
  };
  /// One flat parameter; frozen and trainable parameters of a unit lie in separate ones.
  struct Flat {
    std::vector<View> views;
    std::int64_t elements = 0, padded = 0;  ///< of the whole; `padded` divides by the ranks
    Tensor shard;                           ///< of this rank, in the stored dtype
    Tensor full;                            ///< gathered; its storage is empty while resharded
    Tensor viewed;                          ///< one rank: memory on the device that modules' views hold
    bool trainable = false;
    bool leaf = false;       ///< a unit of its own inside of its layer's: gathered around its module alone
    bool unsharded = false;  ///< ... by now
    std::vector<std::size_t> forward_order;
  };
  /// A unit, or a leaf of it.
  struct Place {
    std::size_t unit = 0;
    int leaf = -1;  ///< among its flat parameters; -1: the unit
  };
  struct Unit {
    int number = -1;
    std::vector<Flat> flats;
    bool unsharded = false;
    std::vector<std::size_t> forward_order;
    bool views_have_history = true;  ///< they were made with gradients
  };
  class ReshardOnly;

  void build_units(Model& model);
  void shard_unit(Unit& unit);
  std::string_view module_of(const View& view) const;
  std::vector<std::size_t> breadth_first(const Flat& flat) const;
  std::vector<Tensor> brought(const Flat& flat, DType stored);
  std::vector<Tensor> materialise(const Flat& flat, DType stored);
  void broadcast(const Flat& flat, DType stored, bool with_buffers);
  void begin();
  bool alone() const { return options_.ranks == 1; }
  void unshard_alone(Flat& flat);
  Tensor low_precision_part(const Flat& flat);
  void export_unit(Unit& unit, bool to_host, std::vector<std::pair<std::size_t, StateTensor>>& out);
  StateTensor part_of(const View& view, DType stored, bool to_host);
  /// Whether what runs is a unit of its own: the root, and layers where they are wrapped.
  void root_first(const std::function<void(Flat&)>& visit);
  bool is_unit(int number) const { return number == -1 || (options_.layers_wrapped && number >= 0); }
  Unit& unit(int number);
  void gather(Flat& flat, bool gathered, bool limited);
  void unshard(Unit& unit);
  void unshard_leaf(Flat& flat);
  void wait_for_frees();
  void note_free();
  void make_views(Unit& unit);
  void make_views(Flat& flat);
  void reshard(Unit& unit);
  void reshard_leaf(Flat& flat);
  Flat* leaf_of(const Tensor& parameter, Place& place);
  void register_backward(const Tensor& output, Place place);
  void before_backward(Unit& unit);
  void before_backward(Flat& leaf);
  void prefetch_before(std::vector<std::size_t>& forward_order);
  void reduce(Unit& unit, Flat& flat);
  void finish_backward();

  Tape& tape_;
  Engine& engine_;
  Model& model_;
  ShardingOptions options_;
  bool begun_ = false;   ///< used once
  bool viewed_ = false;  ///< modules hold views of flat parameters outside of passes
  std::vector<Unit> units_;  ///< layers, then the root
  std::map<const Tensor*, Place> leaves_;  ///< by the module's attribute
  std::vector<Place> post_forward_order_;
  std::deque<StreamMark> frees_;  ///< behind the last use of units freed since the host waited
  std::size_t freed_ = 0;         ///< units and leaves, so far
  bool sync_ = true;
  bool callback_queued_ = false;
};

}  // namespace headroom::tape
