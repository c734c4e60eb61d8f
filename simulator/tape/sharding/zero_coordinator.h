#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "simulator/tape/modules/model.h"
#include "simulator/tape/modules/module_hooks.h"
#include "simulator/tape/sharding/zero.h"

namespace headroom::tape {

/// When stage 3 gathers and releases parameters: runtime/zero/partitioned_param_coordinator.py of DeepSpeed
/// 0.16. It records the order in which modules run; once a whole forward of the root has been seen it fetches
/// ahead of the modules and keeps what is used again soon. A module out of order makes it forget everything.
/// An engine whose root module is never called itself never records.
class ZeroCoordinator : public ModuleHooks, public UnitHooks {
 public:
  struct Parameter {
    Tensor tensor;                        ///< the module's attribute
    Shape shape;                          ///< whole
    std::int64_t elements = 0, part = 0;  ///< whole; of one rank, padded
    bool persistent = false;
    bool on_host = false;  ///< where this rank's part lies
    Tensor partition;      ///< of this rank; undefined where it lies in a larger buffer on the host
    bool available = false;
    std::uint32_t owner = 0;         ///< the module whose attribute it is
    std::set<std::uint32_t> active;  ///< modules that use it now
    int last_use = -1;               ///< position in the trace up to which it has been fetched
  };

  ZeroCoordinator(Model& model, const ZeroOptions& options);

  std::vector<Parameter>& parameters() { return parameters_; }
  /// Empties the parameter's tensor: only its part stays.
  void release(Parameter& parameter);
  /// The step: everything gathered goes, in order; afterwards persistent parameters are gathered for good.
  void release_all();
  void gather_persistent();
  /// param.all_gather(): one parameter gathered on the compute stream; it is copied out of what was gathered or,
  /// with `gathers_in_place`, becomes it.
  void gather_now(std::size_t parameter);
  /// Several at once on the compute stream: what was gathered becomes the parameters.
  void gather_now(const std::vector<std::size_t>& wanted);
  /// Parameters by the module that owns them, in order.
  std::vector<std::vector<std::size_t>> by_module() const;
  /// The engine's reset before each forward of its root module.
  void begin_forward();

  void enter_container(std::uint32_t module) override;
  void leave_container(std::uint32_t module) override;
  void before_module(std::uint32_t module, Tensor& input) override;
  void after_module(std::uint32_t module, Tensor& output) override;
  void before_forward(int unit, Tensor& input) override;
  void after_forward(int unit, Tensor& output) override;

 private:
  enum class Trace { invalid, recording, complete };
  struct Gather {
    Tensor visiting;  ///< a part alone from the host, until it was waited for
    Tensor joint;     ///< several parameters' gathered parts until each was waited for
    std::vector<std::size_t> parameters;
    bool split = false;
  };
  class BeforeBackward;
  class AfterBackward;

  void run_module(std::uint32_t key, Tensor& input);
  void leave_module(std::uint32_t key, Tensor& output);
  void enter(std::uint32_t key);
  void fetch(std::uint32_t key);
  void prefetch(const std::vector<std::size_t>& needed);
  void gather(const std::vector<std::size_t>& wanted);
  void wait(std::size_t parameter);
  /// This rank's part, brought from the host.
  Tensor from_host(const Parameter& parameter);
  /// With one rank nothing is gathered: the parameter becomes its part, or a copy of it from the host.
  void take_own(Parameter& parameter);
  void leave(std::uint32_t key);
  const std::vector<std::size_t>& releasable(std::uint32_t key);
  /// All ranks compare a list of `numbers` integers with the first rank's.
  void compare_ranks(std::int64_t numbers);
  void forget();
  void drop_in_flight();
  const std::vector<std::size_t>& own(std::uint32_t key) const;

  Tape& tape_;
  ZeroOptions options_;
  bool root_is_called_ = true;
  std::vector<Parameter> parameters_;
  std::map<std::uint32_t, std::vector<std::size_t>> modules_;  ///< parameters of a module, in order
  std::map<std::uint32_t, int> gradients_left_;                ///< input gradients that a module waits for
  Trace trace_ = Trace::invalid;
  std::vector<std::uint32_t> order_;  ///< modules as they ran
  int step_ = 0;                      ///< position in it
  struct Queued {
    std::size_t parameter = 0;
    int step = 0;
  };
  std::deque<Queued> queue_;
  std::map<std::size_t, std::shared_ptr<Gather>> in_flight_;
  std::int64_t available_elements_ = 0;
  /// What a module may release at a position of the trace: worked out once, then kept for good.
  std::map<std::pair<std::uint32_t, int>, std::vector<std::size_t>> releasable_;
};

}  // namespace headroom::tape
