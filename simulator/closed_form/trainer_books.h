#pragma once

#include "simulator/phases/trainer_process.h"

namespace headroom::closed_form {

/// What a training process holds and reached, when only the costs of its actions are known.
class TrainerBooks {
 public:
  /// An action's highest moment: live bytes on the device, bytes beyond those held before it that were live
  /// or freed but not yet available, host bytes.
  void reach(const Breakdown& peak, Bytes active_rise, const Breakdown& host_peak);
  /// What is held after it; `cached` beside it, where it emptied the cache before its end.
  void hold(const Breakdown& live, const Breakdown& host, bool emptied_cache, Bytes cached = 0);

  TrainerProcess::State now() const { return {.allocated = live_, .reserved = reserved_, .host = host_}; }
  const Breakdown& live() const { return live_; }
  const Breakdown& host() const { return host_; }
  /// Peaks since the last call.
  TrainerProcess::Piece take_piece();

 private:
  Breakdown live_, host_;
  Bytes reserved_ = 0;
  TrainerProcess::Piece piece_;
};

}  // namespace headroom::closed_form
