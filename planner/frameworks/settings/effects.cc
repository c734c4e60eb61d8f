#include "planner/frameworks/settings/effects.h"

#include <algorithm>

namespace headroom::settings {
namespace {

/// Passes over unevenly cut batches take a little longer.
constexpr double kUneven = 0.03;
/// What goes to the host and back is as much, however it is cut; computing hides all of it or nothing: up to twice
/// the time.
constexpr double kHidden = 0.55;

/// How many units are in flight, and what a shared buffer last held, depends on how batches are cut.
constexpr Bytes kInFlight = 768 * kMiB;

headroom::Effect size_of(unsigned activities, std::string_view role) {
  return {.activities = activities, .faster = End::last, .frugal = End::first, .slack = kUneven, .role = role, .uneven = kInFlight};
}

/// The flag with which tensors that the backward needs wait on the host.
constexpr std::string_view kOffloadsActivations = "activation_offload";

/// `activities` in which only memory changes.
headroom::Effect weighs(unsigned activities, End frugal, Bytes uneven = 0) {
  return {.activities = activities, .seconds = false, .frugal = frugal, .uneven = uneven};
}

constexpr unsigned kNotGenerating = kScoring | kTraining | kResting;

}  // namespace

Effects training_size(std::string_view role) {
  headroom::Effect time = size_of(kTraining, role), memory = time;
  time.memory = false;
  time.unless = kOffloadsActivations;
  time.slack_unless = kHidden;
  memory.seconds = false;
  memory.spares_at_end = true;
  return {time, memory};
}
Effects scoring_size(std::string_view role) {
  return {size_of(kScoring, role)};
}
Effects pass_size(std::string_view role) {
  headroom::Effect out = size_of(kScoring | kTraining, role);
  out.spares_at_end = true;
  return {out};
}
Effects recomputation(std::string_view role) {
  // What is kept for the backward and goes to the host takes longer to move than to compute again.
  return {{.activities = kTraining, .faster = End::first, .frugal = End::last, .role = role, .unless = kOffloadsActivations}};
}
Effects training_saver(std::string_view role) {
  return {{.activities = kTraining, .faster = End::first, .role = role}};
}
Effects passes() {
  return {{.activities = kScoring | kTraining}};
}
Effects layout() {
  return {{.activities = kNotGenerating}, weighs(kGenerating, End::none)};
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
  // What graphs leave to the KV cache comes in whole blocks.
  constexpr Bytes kBlocks = 4 * kMiB;
  return {{.activities = kGenerating, .frugal = End::last, .uneven = kBlocks}, weighs(kNotGenerating, End::last, kBlocks)};
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
      if (effect.slack > 0) {
        effect.faster = End::none;
        effect.slack = 0;
      }
    const auto memory =
        std::find_if(knob.effects.begin(), knob.effects.end(), [](const headroom::Effect& one) { return one.memory; });
    if (memory != knob.effects.end()) knob.effects.push_back(weighs(kAllActivities, memory->frugal, kInFlight));
  }
}

}  // namespace headroom::settings
