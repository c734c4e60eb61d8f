#pragma once

#include <cstdint>
#include <vector>

#include "simulator/hardware/hardware.h"
#include "simulator/memory/host_work.h"
#include "simulator/memory/operation.h"
#include "simulator/time/kernel_seconds.h"

namespace headroom {

/// What one process's Python thread spends: seconds of each allocation and each operation of an eager
/// program, by the profile's host times. A module's forward, a token of `generate` and a recomputed layer are
/// known by what they run first.
class HostThread {
 public:
  explicit HostThread(const HostTimes& times) : times_(times) {}

  double allocation(Label label);
  double operation(const Operation& operation);
  /// One of what no operation shows.
  double work(HostWork what);
  KernelForm form(std::uint16_t operation) { return trait(operation).form; }

 private:
  /// Events that cost other than their kind's.
  enum class Special : std::uint8_t {
    none,
    in_list,       ///< a parameter's part of a call over a list of them
    norm_in_list,  ///< the same, of a norm
    foreach_step,  ///< of an optimizer's step, by implementation
    fused_step,
    loop_step,
    unshard,
    reduce,
    flat_unit,  ///< FSDP1's, whose parameters are one tensor
  };
  struct Trait {
    bool known = false;
    Special special = Special::none;
    KernelForm form = KernelForm::forward;
  };
  const Trait& trait(std::uint16_t operation);
  double special(Special special) const;

  const HostTimes& times_;
  std::vector<Trait> traits_;  ///< by operation's name
  bool in_model_ = false;      ///< a forward pass has begun, but no product
  bool backward_ = false;      ///< the last of those that tell was a gradient's
  bool by_module_ = false;     ///< layers tell of their modules, those that are recomputed too
};

}  // namespace headroom
