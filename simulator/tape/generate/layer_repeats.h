#pragma once

#include <functional>

#include "simulator/memory/repetition.h"
#include "simulator/tape/core/tensor.h"

namespace headroom::tape {

struct KvCache;
class Tape;

/// The layers of one decoded token are alike but for their growing caches. After two of them the memory may
/// prove that two more would find and leave every block where it is; then only the caches of the rest are
/// executed (see simulator/memory/repetition.h).
class LayerRepeats {
 public:
  /// A forward over `layers` equal layers begins; with a null repetition everything is executed.
  void start(Tape& tape, Repetition* repetition, KvCache* cache, int layers);
  void stop() { repetition_ = nullptr; }
  bool active() const { return repetition_ != nullptr; }

  /// Layer `index` on `hidden`: executed by `run`, or left out.
  Tensor layer(int index, const Tensor& hidden, const std::function<Tensor()>& run);

 private:
  static constexpr int kPeriod = 2;  ///< layers: input and output change places each time
  static constexpr int kFirst = 1;   ///< layer 0's input outlives it: not like the others
  void leave_out(int index);

  Tape* tape_ = nullptr;
  Repetition* repetition_ = nullptr;
  KvCache* cache_ = nullptr;
  int layers_ = 0;
  bool proved_ = false;
};

}  // namespace headroom::tape
