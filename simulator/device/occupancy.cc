#include "simulator/device/occupancy.h"

#include <utility>

namespace headroom {

std::size_t Occupancy::add(std::string name) {
  names_.push_back(std::move(name));
  held_.emplace_back();
  return held_.size() - 1;
}

void Occupancy::hold(std::size_t process, const Breakdown& bytes) {
  held_[process] = bytes;
  consider(now(), false);
}

void Occupancy::reach(std::size_t process, const Breakdown& bytes) {
  consider(now() - held_[process] + bytes, false);
}

void Occupancy::overlap(const std::vector<Breakdown>& peaks) {
  Breakdown total;
  for (const Breakdown& peak : peaks) total += peak;
  consider(total, true);
}

Breakdown Occupancy::now() const {
  Breakdown total;
  for (const Breakdown& bytes : held_) total += bytes;
  return total;
}

Occupancy::Peak Occupancy::take_peak() {
  Peak taken = std::move(peak_);
  peak_ = {now(), false};
  return taken;
}

void Occupancy::consider(const Breakdown& total, bool bounded) {
  if (total.total() > peak_.bytes.total()) peak_ = {total, bounded};
}

}  // namespace headroom
