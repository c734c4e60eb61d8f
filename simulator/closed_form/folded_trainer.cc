#include "simulator/closed_form/folded_trainer.h"

#include <algorithm>
#include <utility>

#include "simulator/closed_form/layer_fold.h"
#include "simulator/closed_form/trainer_books.h"
#include "simulator/phases/trainer_process.h"

namespace headroom::closed_form {
namespace {

/// Two programs with few layers side by side, in place of one with all.
class FoldedTrainer final : public TrainerProcess {
 public:
  FoldedTrainer(const LayerFold& fold, const Hardware& hardware, std::int64_t rank, bool& pairs)
      : fold_(fold), few_(fold.few, hardware, rank), more_(fold.more, hardware, rank), pairs_(pairs) {}

  Status act(const Action& action, int step) override {
    if (action.verb == Verb::expandable_on || action.verb == Verb::expandable_off || !pairs_) return {};
    HEADROOM_ASSIGN(const RecordedAction few, few_.act(action, step));
    HEADROOM_ASSIGN(const RecordedAction more, more_.act(action, step));
    const std::optional<ActionCost> cost = folded(fold_, few, more);
    pairs_ = cost.has_value();
    if (!cost) return {};
    books_.reach(cost->at_peak, cost->active_rise, cost->host_at_peak);
    books_.hold(cost->held, cost->host_held, cost->empties_cache, cost->cached);
    seconds_ += cost->seconds;
    return {};
  }

  State now() const override { return books_.now(); }
  Piece take_piece() override { return books_.take_piece(); }
  Seconds take_seconds() override { return std::exchange(seconds_, Seconds{}); }

 private:
  const LayerFold& fold_;
  ActionRecorder few_, more_;
  bool& pairs_;
  TrainerBooks books_;
  Seconds seconds_;
};

}  // namespace

namespace {

Result<Report> folded_report(const Job& job, const Hardware& hardware) {
  if (const std::optional<LayerFold> fold = fold_of(job)) {
    bool pairs = true;
    const MakeTrainer trainer = [&](const Job&, const Process&, const Pool&, const Hardware&,
                                    std::int64_t rank) -> Result<std::unique_ptr<TrainerProcess>> {
      return std::make_unique<FoldedTrainer>(*fold, hardware, rank, pairs);
    };
    Result<Report> report = run_on_device(job, hardware, trainer, "closed_form");
    if (pairs) return report;
  }
  return run_on_device(job, hardware, Fidelity::live_bytes);
}

}  // namespace

Result<Report> estimate(const Job& job, const Hardware& hardware) {
  HEADROOM_TRY(validate_job(job));
  HEADROOM_ASSIGN(Report report, folded_report(job, hardware));
  report.assumptions.push_back(
      "an allocator that never fragments: reserved is the most that was in use at once, waiting for other "
      "streams included, since the cache was emptied (`headroom simulate` runs the allocator)");
  return report;
}

}  // namespace headroom::closed_form
