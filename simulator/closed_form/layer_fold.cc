#include "simulator/closed_form/layer_fold.h"

#include <algorithm>

#include "simulator/time/power_limit.h"

namespace headroom::closed_form {
namespace {

/// Values at few and one more layers → value with `further` more than few.
struct Line {
  std::int64_t further;
  Bytes at(Bytes few, Bytes more) const { return few + further * (more - few); }
  double at(double few, double more) const { return few + static_cast<double>(further) * (more - few); }
  Seconds at(const Seconds& few, const Seconds& more) const {
    Seconds out;
    for (std::size_t i = 0; i < kSpentKinds; ++i) out.by[i] = std::max(0.0, at(few.by[i], more.by[i]));
    return out;
  }
  Breakdown at(const Breakdown& few, const Breakdown& more) const {
    Breakdown out;
    for (std::size_t i = 0; i < kComponents; ++i) out.bytes[i] = at(few.bytes[i], more.bytes[i]);
    return out;
  }
};

/// Bytes that were freed and wait for another stream.
Bytes waiting(const CountingMemory::Moment& moment) {
  return moment.active - moment.live;
}

Bytes most_waiting(const RecordedAction& action) {
  Bytes most = 0;
  for (const CountingMemory::Moment& moment : action.moments) most = std::max(most, waiting(moment));
  return most;
}

struct Highest {
  Bytes live = -1, active = 0;
  const CountingMemory::Moment *few = nullptr, *more = nullptr;  ///< whose line it is
};

/// Raises `best` to the highest of the lines through moments that correspond when layer `without` of the
/// longer run is left out; false when they do not pair up.
/// `waiting_grows`: every layer adds to what waits.
bool raise(Highest& best, const RecordedAction& few, const RecordedAction& more, std::int32_t without,
           const Line& line, bool waiting_grows) {
  std::size_t i = 0;
  for (std::size_t k = 0; k < more.moments.size(); ++k) {
    if (more.layers[k] == without) continue;
    if (i == few.moments.size()) return false;
    const CountingMemory::Moment& here = more.moments[k];
    const CountingMemory::Moment& there = few.moments[i];
    const std::int32_t layer = more.layers[k] > without ? more.layers[k] - 1 : more.layers[k];
    if (there.operation != here.operation || few.layers[i++] != layer) return false;
    const Bytes live = line.at(there.live, here.live);
    // Units in flight are as many in any deep model; the longer run is deep enough.
    best.active = std::max(best.active,
                           live + (waiting_grows ? line.at(waiting(there), waiting(here)) : waiting(here)));
    if (live <= best.live) continue;
    best.live = live;
    best.few = &there;
    best.more = &here;
  }
  return i == few.moments.size();
}

/// Time bends upwards along the layers, for the later of two clocks decides at each moment: a line through
/// few layers lies below it. So does the longer of the work of host and device, each of which grows evenly,
/// with what was hidden by neither in the run with few layers. The higher of both bounds is taken.
Seconds seconds_of(const Line& line, const RecordedAction& few, const RecordedAction& more) {
  Seconds out = line.at(few.seconds, more.seconds);
  const auto longer = [](double host, double device) { return std::max(host, device); };
  const double rest = more.seconds.total() - longer(more.work.host, more.work.device);
  const double total =
      rest + longer(line.at(few.work.host, more.work.host), line.at(few.work.device, more.work.device));
  const double sum = out.total();
  if (sum > 0 && total > sum) out = out * (total / sum);
  return at_power_limit(out, line.at(few.work.ran, more.work.ran), more.rates);
}

bool offloads(const Job& job, const Role& role) {
  const auto moves = [&](const PhaseSpec& phase) {
    return std::any_of(phase.actions.begin(), phase.actions.end(), [&](const Action& action) {
      return action.verb == Verb::offload && action.role == role.name;
    });
  };
  return std::any_of(job.start.begin(), job.start.end(), moves) ||
         std::any_of(job.step.begin(), job.step.end(), moves);
}

/// Whether memory grows evenly with the layers: no buckets of a fixed size over all parameters, no parts of a
/// pipeline, no copy of a whole model's buffer on the host, where one block is rounded up to a power of two.
bool grows_evenly(const Job& job) {
  return std::all_of(job.roles.begin(), job.roles.end(), [&](const Role& role) {
    const ShardingKind kind = role.sharding.kind;
    return role.loop == nullptr && role.parallel.pipeline == 1 &&
           (kind == ShardingKind::none || kind == ShardingKind::fsdp1 || kind == ShardingKind::fsdp2 ||
            (kind == ShardingKind::megatron && !offloads(job, role)));
  });
}

}  // namespace

std::shared_ptr<const Architecture> with_last_group(const Architecture& model, std::int64_t count) {
  const std::vector<LayerGroup>& groups = model.decoder.groups;
  if (groups.empty() || groups.back().count <= count) return nullptr;
  const std::int64_t end = groups.back().first + count;
  if (groups.back().first + groups.back().count != model.decoder.layers) return nullptr;
  auto out = std::make_shared<Architecture>();
  out->family = model.family;
  out->source = model.source;
  out->transformers_version = model.transformers_version;
  out->dtype = model.dtype;
  out->head = model.head;
  out->labels = model.labels;
  out->layer_class = model.layer_class;
  out->vision = model.vision;
  out->decoder = model.decoder;
  out->decoder.groups.back().count = count;
  out->decoder.layers = end;
  for (const Tensor& tensor : model.tensors)
    if (tensor.place != Place::layer || tensor.layer < end) out->tensors.push_back(tensor);
  return out;
}

std::optional<LayerFold> fold_of(const Job& job) {
  if (job.roles.empty() || !grows_evenly(job)) return std::nullopt;
  LayerFold out{.few = job, .more = job};
  const bool keeps_units = std::any_of(job.roles.begin(), job.roles.end(), [](const Role& role) {
    return role.sharding.kind == ShardingKind::fsdp1 && !role.sharding.reshard_after_forward;
  });
  if (keeps_units) ++out.few_layers;
  for (std::size_t i = 0; i < job.roles.size(); ++i) {
    const auto& model = job.roles[i].model;
    if (model == nullptr || model->decoder.groups.empty()) return std::nullopt;
    const LayerGroup& group = model->decoder.groups.back();
    if (i > 0 && (group.first != out.first || group.count != out.layers)) return std::nullopt;
    out.first = static_cast<std::int32_t>(group.first);
    out.layers = group.count;
    // Roles that share an architecture go on sharing it.
    const auto same = std::find_if(job.roles.begin(), job.roles.begin() + static_cast<std::ptrdiff_t>(i),
                                   [&](const Role& role) { return role.model == model; });
    const auto known = static_cast<std::size_t>(same - job.roles.begin());
    out.few.roles[i].model = known < i ? out.few.roles[known].model : with_last_group(*model, out.few_layers);
    out.more.roles[i].model =
        known < i ? out.more.roles[known].model : with_last_group(*model, out.few_layers + 1);
    if (out.few.roles[i].model == nullptr || out.more.roles[i].model == nullptr) return std::nullopt;
  }
  return out;
}

std::optional<ActionCost> folded(const LayerFold& fold, const RecordedAction& few,
                                 const RecordedAction& more) {
  const Line line{fold.layers - fold.few_layers};
  const bool waiting_grows = fold.few_layers > kFewLayers && most_waiting(more) > most_waiting(few);
  // Layers first, first + 1, first + 2 of the shorter run; leaving out the second or the third of the longer
  // one follows the second layer or the last but one.
  Highest best;
  if (!raise(best, few, more, fold.first + 2, line, waiting_grows) ||
      !raise(best, few, more, fold.first + 1, line, waiting_grows))
    return std::nullopt;
  ActionCost out;
  out.rise = std::max<Bytes>(0, best.live - line.at(few.before, more.before));
  out.active_rise = std::max<Bytes>(0, best.active - line.at(few.before, more.before));
  out.at_peak = line.at(best.few->components(), best.more->components());
  out.gathered = line.at(few.gathered, more.gathered);
  out.buffered = line.at(few.buffered, more.buffered);
  out.held = line.at(few.held, more.held);
  out.host_at_peak = line.at(few.host_at_peak, more.host_at_peak);
  out.host_rise = out.host_at_peak.total() - line.at(few.host_before, more.host_before);
  out.host_held = line.at(few.host_held, more.host_held);
  out.seconds = seconds_of(line, few, more);
  out.empties_cache = few.empties_cache;
  out.cached = line.at(few.cached, more.cached);
  return out;
}

}  // namespace headroom::closed_form
