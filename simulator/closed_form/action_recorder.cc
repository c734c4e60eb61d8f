#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "simulator/closed_form/layer_fold.h"
#include "simulator/memory/counting_memory.h"
#include "simulator/memory/forwarding_memory.h"
#include "simulator/memory/timed_memory.h"
#include "simulator/phases/trainer_process.h"
#include "simulator/time/power_limit.h"
#include "simulator/trainer/trainer.h"

namespace headroom::closed_form {
namespace {

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
void join_to_layers(std::vector<std::int32_t>& layers) {
  std::size_t first = 0;  // of a run without layers
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] < 0) continue;
    if (first > 0 && std::abs(layers[i] - layers[first - 1]) <= 1)
      for (std::size_t between = first; between < i; ++between) layers[between] = layers[i];
    first = i + 1;
  }
}

/// One operation over all tensors, piece by piece, is one moment: its pieces are as many as the layers have
/// tensors.
void join_pieces(std::vector<CountingMemory::Moment>& moments, std::vector<std::int32_t>& layers) {
  std::size_t kept = 0;
  for (std::size_t i = 1; i < moments.size(); ++i) {
    CountingMemory::Moment& last = moments[kept];
    const CountingMemory::Moment& next = moments[i];
    if (layers[kept] < 0 && layers[i] < 0 && last.operation == next.operation) {
      last.active = std::max(last.active, next.active);
      if (next.live <= last.live) continue;
      last.live = next.live;
      last.blocks = next.blocks;
    } else if (++kept < i) {
      moments[kept] = next;
      layers[kept] = layers[i];
    }
  }
  moments.resize(std::min(moments.size(), kept + 1));
  layers.resize(moments.size());
}

/// Notes when the program empties the cache, which a sum of live blocks does not show.
class EmptyNoting final : public ForwardingMemory {
 public:
  using ForwardingMemory::ForwardingMemory;
  void empty_cache() override {
    emptied_ = true;
    ForwardingMemory::empty_cache();
  }
  Repetition* repetition() override { return inner().repetition(); }
  bool take_emptied() { return std::exchange(emptied_, false); }

 private:
  bool emptied_ = false;
};

}  // namespace

struct ActionRecorder::Program {
  Program(const Job& job, const Hardware& hardware, std::int64_t rank)
      : memory(true, runs_ahead(job, hardware)),
        noting(memory),
        timed(noting, hardware, job.pools.front().gpus_per_node),
        trainer(job, timed, trainer::traits_of(hardware), rank),
        rates(hardware.matrix) {
    trainer.repeat = &timed.repeat;
    trainer.filled = &timed.filled;
    timed.records_history = job.records_history;
  }

  std::int32_t layer(std::uint32_t module) {
    const tape::ModuleNames& names = trainer.tape().modules();
    while (layers.size() <= module)
      layers.push_back(layer_of(names.text(static_cast<std::uint32_t>(layers.size()))));
    return layers[module];
  }

  CountingMemory memory;
  EmptyNoting noting;
  TimedMemory timed;
  trainer::Trainer trainer;
  const MatrixRates& rates;
  std::vector<std::int32_t> layers;          ///< by module
  std::vector<std::int32_t> moments_layers;  ///< of the action that ran last
};

ActionRecorder::ActionRecorder(const Job& job, const Hardware& hardware, std::int64_t rank)
    : program_(std::make_unique<Program>(job, hardware, rank)) {}
ActionRecorder::~ActionRecorder() = default;

Result<RecordedAction> ActionRecorder::act(const Action& action, int step) {
  CountingMemory& memory = program_->memory;
  RecordedAction out;
  memory.reset_peak();
  memory.begin_moments();
  out.before = memory.live();
  out.gathered = memory.components()[Component::gathered_parameters];
  out.buffered = memory.components()[Component::communication];
  out.host_before = memory.host_live();
  HEADROOM_TRY(program_->trainer.act(action, step));
  std::vector<CountingMemory::Moment>& moments = memory.end_moments();
  std::vector<std::int32_t>& layers = program_->moments_layers;
  layers.clear();
  for (const CountingMemory::Moment& moment : moments) layers.push_back(program_->layer(moment.module));
  program_->timed.synchronize();  // frameworks read metrics and times back at each phase's end
  join_pieces(moments, layers);
  join_to_layers(layers);
  out.moments = moments;
  out.layers = layers;
  out.held = memory.components();
  out.host_at_peak = memory.host_at_peak();
  out.host_held = memory.host_components();
  out.work = program_->timed.work();
  out.seconds = program_->timed.take_burst();
  out.rates = program_->rates;
  out.empties_cache = program_->noting.take_emptied();
  if (out.empties_cache) out.cached = memory.reserved() - memory.live();
  return out;
}

ActionCost cost_of(const RecordedAction& action) {
  ActionCost out;
  Bytes highest = -1;
  for (const CountingMemory::Moment& moment : action.moments) {
    out.active_rise = std::max(out.active_rise, moment.active - action.before);
    if (moment.live <= highest) continue;
    highest = moment.live;
    out.at_peak = moment.components();
  }
  out.rise = std::max<Bytes>(0, highest - action.before);
  out.gathered = action.gathered;
  out.buffered = action.buffered;
  out.held = action.held;
  out.host_rise = action.host_at_peak.total() - action.host_before;
  out.host_at_peak = action.host_at_peak;
  out.host_held = action.host_held;
  out.seconds = at_power_limit(action.seconds, action.work.ran, action.rates);
  out.empties_cache = action.empties_cache;
  out.cached = action.cached;
  return out;
}

}  // namespace headroom::closed_form
