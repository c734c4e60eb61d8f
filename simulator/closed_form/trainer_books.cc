#include "simulator/closed_form/trainer_books.h"

#include <algorithm>
#include <utility>

namespace headroom::closed_form {

void TrainerBooks::reach(const Breakdown& peak, Bytes active_rise, const Breakdown& host_peak) {
  const Bytes active = std::max(peak.total(), live_.total() + active_rise);
  if (peak.total() > piece_.peak.allocated.total()) piece_.peak.allocated = peak;
  if (host_peak.total() > piece_.peak.host.total()) piece_.peak.host = host_peak;
  piece_.peak_active = std::max(piece_.peak_active, active);
  reserved_ = std::max(reserved_, active);
  piece_.peak.reserved = std::max(piece_.peak.reserved, reserved_);
}

void TrainerBooks::hold(const Breakdown& live, const Breakdown& host, bool emptied_cache, Bytes cached) {
  live_ = live;
  host_ = host;
  reserved_ = emptied_cache ? live_.total() + cached : std::max(reserved_, live_.total());
}

TrainerProcess::Piece TrainerBooks::take_piece() {
  TrainerProcess::Piece taken = std::exchange(piece_, TrainerProcess::Piece{});
  if (taken.peak.allocated.total() < live_.total()) taken.peak.allocated = live_;
  if (taken.peak.host.total() < host_.total()) taken.peak.host = host_;
  taken.peak.reserved = std::max(taken.peak.reserved, reserved_);
  taken.peak_active = std::max(taken.peak_active, taken.peak.allocated.total());
  return taken;
}

}  // namespace headroom::closed_form
