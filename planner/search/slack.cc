#include "planner/search/slack.h"

#include <algorithm>
#include <limits>

namespace headroom::search {
namespace {

const PhaseOutcome* find(const std::vector<PhaseOutcome>& phases, const std::string& name) {
  const auto found =
      std::find_if(phases.begin(), phases.end(), [&](const PhaseOutcome& one) { return one.phase == name; });
  return found == phases.end() ? nullptr : &*found;
}

std::size_t distance(const Point& a, const Point& b) {
  std::size_t differing = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) differing += a[i] != b[i] ? 1 : 0;
  return differing;
}

}  // namespace

void Slack::learn(const Point& point, const Outcome& quick, const Outcome& exact) {
  Sample sample{point, {}};
  for (const PhaseOutcome& ran : exact.phases)
    if (const PhaseOutcome* thought = find(quick.phases, ran.phase))
      sample.more.push_back({ran.phase, std::max<Bytes>(0, thought->spare - ran.spare), 0, 0, 0, false});
  if (!sample.more.empty()) samples_.push_back(std::move(sample));
}

Outcome Slack::expected(const Point& point, Outcome quick) const {
  if (!quick.valid || samples_.empty()) return quick;
  std::vector<std::size_t> apart;
  for (const Sample& sample : samples_) apart.push_back(distance(point, sample.point));
  for (const PhaseOutcome& phase : quick.phases) {
    std::size_t nearest = std::numeric_limits<std::size_t>::max();
    Bytes more = 0;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      if (apart[i] > nearest) continue;
      const PhaseOutcome* known = find(samples_[i].more, phase.phase);
      if (known == nullptr) continue;
      more = apart[i] < nearest ? known->spare : std::max(more, known->spare);
      nearest = apart[i];
    }
    const Bytes spare = phase.spare - more;
    if (spare >= quick.spare) continue;
    quick.peak_device += quick.spare - spare;
    quick.spare = spare;
    quick.limiting_phase = phase.phase;
  }
  quick.fits = quick.fits && quick.spare >= 0;
  return quick;
}

}  // namespace headroom::search
