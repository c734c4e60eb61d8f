#pragma once

#include <functional>

#include "simulator/memory/repetition.h"
#include "simulator/tape/core/tensor.h"

namespace headroom::tape {

struct KvCache;
class Tape;

/// The layers of one decoded token are alike but for their growing caches. Input and output change places
/// each time, so after two of them, or a few more, the memory may prove that as many again would find and
/// leave every block where it is; then only the caches of the rest are executed
/// (simulator/memory/repetition.h).
class LayerRepeats {
 public:
  /// A forward over `layers` equal layers begins; with a null repetition everything is executed.
  void start(Tape& tape, Repetition* repetition, KvCache* cache, int layers);
  void stop();
  bool active() const { return repetition_ != nullptr; }

  /// Layer `index` on `hidden`: executed by `run`, or left out.
  Tensor layer(int index, const Tensor& hidden, const std::function<Tensor()>& run);

 private:
  static constexpr int kFirst = 1;    ///< layer 0's input outlives it: not like the others
  static constexpr int kLongest = 6;  ///< layers of a period; then another is looked for
  void watch(int index);
  void leave_out(int place, int index);

  Tape* tape_ = nullptr;
  Repetition* repetition_ = nullptr;
  KvCache* cache_ = nullptr;
  int layers_ = 0;
  int first_ = kFirst;  ///< where watching began
  int period_ = 0;      ///< layers; 0: none is proved
};

}  // namespace headroom::tape
