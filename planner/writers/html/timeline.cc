#include "planner/writers/html/timeline.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <vector>

namespace headroom::writers {
namespace {

using Json = nlohmann::ordered_json;
using replay::TraceAction;

constexpr std::size_t kPoints = 3000, kLargest = 300, kPhases = 300, kSegments = 120;
constexpr Bytes kParts = 800;  ///< narrower parts of a segment than one of so many are drawn with their neighbour

struct Life {
  std::size_t born = 0, freed = 0;
  Bytes bytes = 0, below = 0;
  replay::StackId stack = 0;
};

/// The largest segments at the reserved peak: size, bytes free, what it is, and its parts as [bytes, free, label].
Json segments_json(const replay::Snapshot& snapshot, const replay::DeviceAnalysis& analysis) {
  std::vector<const replay::PeakSegment*> largest;
  for (const replay::PeakSegment& segment : analysis.segments) largest.push_back(&segment);
  std::stable_sort(largest.begin(), largest.end(), [](const auto* a, const auto* b) { return a->size > b->size; });
  if (largest.size() > kSegments) largest.resize(kSegments);
  Json out = Json::array();
  for (const replay::PeakSegment* segment : largest) {
    Json parts = Json::array();
    Bytes free = 0, drawn = 0;
    for (const replay::PeakSegment::Part& part : segment->parts) {
      if (part.free) free += part.size;
      if (!parts.empty() && parts.back()[1] == part.free && drawn < segment->size / kParts) {
        drawn += part.size;
        parts.back()[0] = drawn;
        continue;
      }
      drawn = part.size;
      const auto site = part.free ? std::nullopt : site_of(snapshot, part.stack);
      parts.push_back({part.size, part.free,
                       part.free ? "free" : site ? frame_text(snapshot, *site) : std::string("(no stack recorded)")});
    }
    out.push_back({segment->size, free,
                   segment->expandable ? "expandable" : segment->small ? "small blocks" : "large blocks",
                   std::move(parts)});
  }
  return out;
}

class Walk {
 public:
  Walk(const replay::Snapshot& snapshot, const replay::DeviceAnalysis& analysis)
      : snapshot_(snapshot), analysis_(analysis), count_(analysis.history.count) {
    allocated_ = analysis.start.allocated;
    reserved_ = analysis.start.reserved;
    for (const replay::StartBlock& block : analysis.history.blocks)
      live_[block.address] = {0, count_, block.exact.value_or(block.requested), 0, block.stack};
    stretch_ = std::max<std::size_t>(1, (count_ + kPoints - 1) / kPoints);
  }

  void run() {
    point(0);
    for (std::size_t i = 0; i < count_; ++i) {
      step(i);
      if (allocated_ >= highest_allocated_ || reserved_ >= highest_reserved_) {
        highest_allocated_ = std::max(highest_allocated_, allocated_);
        highest_reserved_ = std::max(highest_reserved_, reserved_);
      }
      if ((i + 1) % stretch_ == 0 || i + 1 == count_) point(i + 1);
    }
    for (const auto& [address, life] : live_) lives_.push_back(life);
    const auto larger = [](const Life& a, const Life& b) { return a.bytes > b.bytes; };
    const std::size_t kept = std::min(kLargest, lives_.size());
    std::partial_sort(lives_.begin(), lives_.begin() + static_cast<std::ptrdiff_t>(kept), lives_.end(), larger);
    lives_.resize(kept);
  }

  Json json(const std::string& process) const {
    Json largest = Json::array(), phases = Json::array();
    for (const Life& life : lives_) {
      const auto site = site_of(snapshot_, life.stack);
      largest.push_back({life.born, life.freed, life.bytes, life.below,
                         site ? frame_text(snapshot_, *site) : std::string("(no stack recorded)")});
    }
    for (std::size_t i = 0; i < std::min(kPhases, analysis_.phases.size()); ++i)
      phases.push_back({analysis_.phases[i].first, analysis_.phases[i].name});
    return {{"process", process},
            {"events", count_},
            {"points", points_},
            {"largest", std::move(largest)},
            {"phases", std::move(phases)},
            {"segments", segments_json(snapshot_, analysis_)},
            {"all_segments", analysis_.segments.size()},
            {"fragmentation",
             {{"reserved", analysis_.peak_reserved.reserved},
              {"free", analysis_.fragmentation.free},
              {"in_phase", analysis_.peak_reserved.phase}}}};
  }

 private:
  void step(std::size_t i) {
    const replay::TraceEvent& event = snapshot_.events[analysis_.history.first + i];
    switch (event.action) {
      case TraceAction::alloc:
        live_[event.address] = {i, count_, event.size, allocated_, event.stack};
        allocated_ += event.size;
        break;
      case TraceAction::free_requested:
        if (!analysis_.history.has_free_completed) end(event.address, i);
        break;
      case TraceAction::free_completed:
        end(event.address, i);
        break;
      case TraceAction::segment_alloc:
      case TraceAction::segment_map:
        reserved_ += event.size;
        break;
      case TraceAction::segment_free:
      case TraceAction::segment_unmap:
        reserved_ -= event.size;
        break;
      default:
        break;
    }
  }

  void end(std::int64_t address, std::size_t at) {
    const auto found = live_.find(address);
    if (found == live_.end()) return;
    Life life = found->second;
    live_.erase(found);
    allocated_ -= life.bytes;
    life.freed = at;
    lives_.push_back(life);
    if (lives_.size() > 64 * kLargest) thin();
  }

  /// Keeps the largest: a history of millions ends in some hundreds.
  void thin() {
    std::nth_element(lives_.begin(), lives_.begin() + kLargest, lives_.end(),
                     [](const Life& a, const Life& b) { return a.bytes > b.bytes; });
    lives_.resize(kLargest);
  }

  void point(std::size_t event) {
    points_.push_back({event, std::max(highest_allocated_, allocated_), std::max(highest_reserved_, reserved_)});
    highest_allocated_ = allocated_;
    highest_reserved_ = reserved_;
  }

  const replay::Snapshot& snapshot_;
  const replay::DeviceAnalysis& analysis_;
  std::size_t count_, stretch_ = 1;
  Bytes allocated_ = 0, reserved_ = 0, highest_allocated_ = 0, highest_reserved_ = 0;
  std::unordered_map<std::int64_t, Life> live_;
  std::vector<Life> lives_;
  Json points_ = Json::array();
};

}  // namespace

std::string timeline_json(const replay::Snapshot& snapshot, const replay::DeviceAnalysis& analysis,
                          const std::string& process) {
  Walk walk(snapshot, analysis);
  walk.run();
  return walk.json(process).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace headroom::writers
