#include "planner/frameworks/settings/effects.h"

#include <algorithm>

namespace headroom::settings {
namespace {

/// Passes over unevenly cut batches take a little longer, and the largest is fastest of all but for that.
constexpr double kUneven = 0.02;

headroom::Effect size_of(unsigned activities, std::string_view role) {
  return {.activities = activities,
          .faster = End::last,
          .frugal = End::first,
          .fastest_at_end = true,
          .slack = kUneven,
          .role = role};
}

/// `activities` in which only memory changes.
headroom::Effect weighs(unsigned activities, End frugal) {
  return {.activities = activities, .seconds = false, .frugal = frugal};
}

constexpr unsigned kNotGenerating = kScoring | kTraining | kResting;

}  // namespace

Effects training_size(std::string_view role) {
  return {size_of(kTraining, role)};
}
Effects scoring_size(std::string_view role) {
  return {size_of(kScoring, role)};
}
Effects pass_size(std::string_view role) {
  return {size_of(kScoring | kTraining, role)};
}
Effects recomputation(std::string_view role) {
  return {{.activities = kTraining, .role = role}};
}
Effects training_saver(std::string_view role) {
  return {{.activities = kTraining, .faster = End::first, .role = role}};
}
Effects passes() {
  return {{.activities = kScoring | kTraining}};
}
Effects parked() {
  return {{.activities = kNotGenerating, .faster = End::first, .frugal = End::last},
          {.activities = kGenerating, .faster = End::last, .frugal = End::last}};
}
Effects parked_optimizer(std::string_view role) {
  return {{.activities = kTraining, .faster = End::first, .frugal = End::last, .role = role},
          weighs(kAllActivities, End::last)};
}
Effects engine_share(bool sleeps) {
  return {{.activities = kGenerating, .faster = End::last, .frugal = End::first},
          weighs(sleeps ? kSyncing : kAllActivities | kSyncing, End::first)};
}
Effects engine_eager() {
  return {{.activities = kGenerating, .frugal = End::last}, weighs(kNotGenerating, End::last)};
}
Effects engine_sequences() {
  return {{.activities = kGenerating}, weighs(kScoring | kTraining, End::first), weighs(kResting, End::none)};
}
Effects engine_prefill() {
  return {{.activities = kGenerating, .frugal = End::first}, weighs(kSyncing, End::first)};
}
Effects engine_ranks() {
  return {{.activities = kGenerating}, weighs(kNotGenerating, End::none)};
}
Effects weight_buffer() {
  return {{.activities = kSyncing, .faster = End::last, .frugal = End::first}};
}

void share_buffers(const Job& job, std::vector<Knob>& knobs) {
  const bool shared = std::any_of(job.roles.begin(), job.roles.end(), [](const Role& role) {
    return role.sharding.kind == ShardingKind::megatron;
  });
  if (!shared) return;
  for (Knob& knob : knobs) {
    // A pipeline is filled and emptied once a pass: fewer, larger micro-batches are not faster.
    for (headroom::Effect& effect : knob.effects)
      if (effect.fastest_at_end) {
        effect.faster = End::none;
        effect.fastest_at_end = false;
      }
    const auto memory =
        std::find_if(knob.effects.begin(), knob.effects.end(), [](const headroom::Effect& one) { return one.memory; });
    if (memory != knob.effects.end()) knob.effects.push_back(weighs(kAllActivities, memory->frugal));
  }
}

}  // namespace headroom::settings
