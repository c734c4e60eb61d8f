#include "simulator/closed_form/action_costs.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "simulator/memory/counting_memory.h"
#include "simulator/memory/forwarding_memory.h"
#include "simulator/memory/timed_memory.h"
#include "simulator/phases/trainer.h"

namespace headroom::closed_form {
namespace {

constexpr std::int64_t kFew = 3;  ///< layers of the shorter run; the longer one has one more

/// A moment with the decoder layer that it belongs to; -1: none.
struct Moment {
  Bytes live = 0;
  std::int32_t layer = -1;
  std::uint16_t operation = 0;
};

/// One action as it ran.
struct Recorded {
  std::vector<Moment> moments;
  Bytes before = 0, gathered = 0;
  Breakdown held;
  Bytes host_before = 0, host_peak = 0;
  Breakdown host_held;
  double seconds = 0;
  bool empties_cache = false;
};

/// The first number among a module path's parts: `model.layers.3.mlp` is of layer 3.
std::int32_t layer_of(const std::string& path) {
  for (std::size_t start = 0; start < path.size();) {
    const std::size_t end = std::min(path.find('.', start), path.size());
    std::int32_t layer = 0;
    const auto [stop, error] = std::from_chars(path.data() + start, path.data() + end, layer);
    if (error == std::errc{} && stop == path.data() + end) return layer;
    start = end + 1;
  }
  return -1;
}

/// Work that names no layer goes with the layer that surrounds it, between neighbours (a gather) with the
/// later one. The head's goes with the last layer so, which does no harm: ends are never left out.
void join_to_layers(std::vector<Moment>& moments) {
  std::size_t first = 0;  // of a run without layers
  for (std::size_t i = 0; i < moments.size(); ++i) {
    if (moments[i].layer < 0) continue;
    if (first > 0 && std::abs(moments[i].layer - moments[first - 1].layer) <= 1)
      for (std::size_t between = first; between < i; ++between) moments[between].layer = moments[i].layer;
    first = i + 1;
  }
}

/// One operation over all tensors, piece by piece, is one moment: its pieces are as many as the layers have
/// tensors.
void join_pieces(std::vector<Moment>& moments) {
  const auto joins = [](Moment& a, const Moment& b) {
    if (a.layer >= 0 || b.layer >= 0 || a.operation != b.operation) return false;
    a.live = std::max(a.live, b.live);
    return true;
  };
  std::size_t kept = 0;
  for (std::size_t i = 1; i < moments.size(); ++i)
    if (!joins(moments[kept], moments[i])) moments[++kept] = moments[i];
  moments.resize(std::min(moments.size(), kept + 1));
}

/// Notes when the program empties the cache, which a sum of live blocks does not show.
class EmptyNoting final : public ForwardingMemory {
 public:
  using ForwardingMemory::ForwardingMemory;
  void empty_cache() override {
    emptied_ = true;
    ForwardingMemory::empty_cache();
  }
  bool take_emptied() { return std::exchange(emptied_, false); }

 private:
  bool emptied_ = false;
};

/// A run of a job's trainer actions over counted blocks.
class Recorder {
 public:
  Recorder(const Job& job, const Hardware& hardware)
      : job_(job),
        memory_(true),
        noting_(memory_),
        timed_(noting_, hardware, job.pools.front().gpus_per_node),
        trainer_(job, timed_, phases::traits_of(hardware)) {
    trainer_.repeat = &timed_.repeat;
  }

  Result<std::vector<Recorded>> run() {
    for (const PhaseSpec& phase : job_.start) HEADROOM_TRY(run(phase, -1));
    for (int step = 0; step < job_.steps; ++step)
      for (const PhaseSpec& phase : job_.step)
        if (runs_in(phase, step, job_.steps)) HEADROOM_TRY(run(phase, step));
    return std::move(actions_);
  }

 private:
  Status run(const PhaseSpec& phase, int step) {
    for (const Action& action : phase.actions) {
      Recorded& out = actions_.emplace_back();
      memory_.reset_peak();
      out.before = memory_.live();
      out.gathered = memory_.components()[Component::gathered_parameters];
      out.host_before = memory_.host_live();
      HEADROOM_TRY(trainer_.act(action, step));
      for (const CountingMemory::Moment& moment : memory_.take_moments())
        out.moments.push_back({moment.live, layer(moment.module), moment.operation});
      join_pieces(out.moments);
      join_to_layers(out.moments);
      out.held = memory_.components();
      out.host_peak = memory_.host_peak();
      out.host_held = memory_.host_components();
      out.seconds = timed_.take_seconds();
      out.empties_cache = noting_.take_emptied();
    }
    return {};
  }

  std::int32_t layer(std::uint32_t module) {
    const tape::ModuleNames& names = trainer_.tape().modules();
    while (layers_.size() <= module)
      layers_.push_back(layer_of(names.text(static_cast<std::uint32_t>(layers_.size()))));
    return layers_[module];
  }

  const Job& job_;
  CountingMemory memory_;
  EmptyNoting noting_;
  TimedMemory timed_;
  phases::Trainer trainer_;
  std::vector<std::int32_t> layers_;  ///< by module
  std::vector<Recorded> actions_;
};

ActionCost cost_of(const Recorded& action) {
  ActionCost out;
  for (const Moment& moment : action.moments) out.rise = std::max(out.rise, moment.live - action.before);
  out.gathered = action.gathered;
  out.held = action.held;
  out.host_rise = action.host_peak - action.host_before;
  out.host_held = action.host_held;
  out.seconds = action.seconds;
  out.empties_cache = action.empties_cache;
  return out;
}

/// Values at three and four layers → value at `layers`.
struct Line {
  std::int64_t layers;
  Bytes at(Bytes few, Bytes more) const { return few + (layers - kFew) * (more - few); }
  double at(double few, double more) const { return few + static_cast<double>(layers - kFew) * (more - few); }
  Breakdown at(const Breakdown& few, const Breakdown& more) const {
    Breakdown out;
    for (std::size_t i = 0; i < kComponents; ++i) out.bytes[i] = at(few.bytes[i], more.bytes[i]);
    return out;
  }
};

/// The highest of the lines through moments that correspond when layer `without` of the longer run is left
/// out; nothing when they do not pair up.
std::optional<Bytes> highest(const std::vector<Moment>& few, const std::vector<Moment>& more,
                             std::int32_t without, const Line& line) {
  Bytes best = 0;
  std::size_t i = 0;
  for (const Moment& moment : more) {
    if (moment.layer == without) continue;
    if (i == few.size()) return std::nullopt;
    const Moment& other = few[i++];
    const std::int32_t layer = moment.layer > without ? moment.layer - 1 : moment.layer;
    if (other.operation != moment.operation || other.layer != layer) return std::nullopt;
    best = std::max(best, line.at(other.live, moment.live));
  }
  if (i != few.size()) return std::nullopt;
  return best;
}

std::optional<ActionCost> fold(const Recorded& few, const Recorded& more, std::int32_t first,
                               const Line& line) {
  // Layers first, first + 1, first + 2 of the shorter run; leaving out the second or the third of the longer
  // one follows the second layer or the last but one.
  const auto second = highest(few.moments, more.moments, first + 2, line);
  const auto last_but_one = highest(few.moments, more.moments, first + 1, line);
  if (!second || !last_but_one) return std::nullopt;
  ActionCost out;
  out.rise = std::max<Bytes>(0, std::max(*second, *last_but_one) - line.at(few.before, more.before));
  out.gathered = line.at(few.gathered, more.gathered);
  out.held = line.at(few.held, more.held);
  out.host_rise = line.at(few.host_peak - few.host_before, more.host_peak - more.host_before);
  out.host_held = line.at(few.host_held, more.host_held);
  out.seconds = line.at(few.seconds, more.seconds);
  out.empties_cache = few.empties_cache;
  return out;
}

/// The job with every role's model cut down to `count` layers of its last group; nothing when one cannot be.
std::optional<Job> shorter(const Job& job, std::int64_t count) {
  Job out = job;
  for (Role& role : out.roles) {
    role.model = with_last_group(*role.model, count);
    if (role.model == nullptr) return std::nullopt;
  }
  return out;
}

std::optional<std::vector<ActionCost>> folded(const Job& job, const Hardware& hardware) {
  const auto& groups = job.roles.front().model->decoder.groups;
  for (const Role& role : job.roles)
    if (role.model != job.roles.front().model) return std::nullopt;
  const std::optional<Job> short_job = shorter(job, kFew), long_job = shorter(job, kFew + 1);
  if (!short_job || !long_job) return std::nullopt;
  const auto few = Recorder(*short_job, hardware).run(), more = Recorder(*long_job, hardware).run();
  if (!few || !more || few->size() != more->size()) return std::nullopt;
  const Line line{groups.back().count};
  std::vector<ActionCost> out;
  for (std::size_t i = 0; i < few->size(); ++i) {
    const auto cost = fold((*few)[i], (*more)[i], static_cast<std::int32_t>(groups.back().first), line);
    if (!cost) return std::nullopt;
    out.push_back(*cost);
  }
  return out;
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

Result<std::vector<ActionCost>> action_costs(const Job& job, const Hardware& hardware) {
  if (!job.roles.empty() && job.roles.front().model != nullptr)
    if (auto costs = folded(job, hardware)) return std::move(*costs);
  HEADROOM_ASSIGN(const std::vector<Recorded> actions, Recorder(job, hardware).run());
  std::vector<ActionCost> out;
  for (const Recorded& action : actions) out.push_back(cost_of(action));
  return out;
}

}  // namespace headroom::closed_form
