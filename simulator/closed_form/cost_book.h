#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "simulator/closed_form/action_costs.h"

namespace headroom::closed_form {

/// What a role's actions cost, in three parts that settings decide separately, so that a search that turns
/// one knob finds the others' parts in the book.
struct RoleCosts {
  using Part = std::shared_ptr<const std::vector<ActionCost>>;
  /// Every action of the role in the job's order, on one tiny micro-batch: what is held when, and the peaks
  /// of all that does not depend on the batch.
  Part residency;
  /// The first and the second forward without gradients, on the real micro-batches.
  Part forward;
  /// The first and the second training, on the real micro-batches, each behind a forward on a tiny one where
  /// the role has any.
  Part training;
  bool trains = false;

  const ActionCost& training_pass(std::size_t which) const {
    return (*training)[(which + 1) * (training->size() / 2) - 1];
  }
};

/// Passes over the real micro-batches that somebody asks for.
struct RolePasses {
  bool forward = true, training = true;
};

/// Whether an action takes part in the residency part: switching the allocator's settings does not.
bool costs_something(Verb verb);

/// Costs that were worked out before, by the settings that they depend on. May be used from several threads.
class CostBook {
 public:
  explicit CostBook(const Hardware& hardware) : hardware_(hardware) {}

  /// The costs of `role` (with roles that share its weights) in `job` on GPU `rank` of its pool; parts that
  /// `passes` leaves out are null. Errors: what no program covers.
  Result<RoleCosts> costs(const Job& job, const Process& process, const Role& role, std::int64_t rank = 0,
                          RolePasses passes = {});

  std::int64_t programs_run() const { return programs_run_; }

 private:
  struct Entry {
    Job job;
    std::int64_t rank = 0;
    std::once_flag once;
    Result<RoleCosts::Part> costs = RoleCosts::Part{};
  };

  Result<RoleCosts::Part> find(Job part, std::int64_t rank, bool steps_alone);

  Hardware hardware_;
  std::mutex mutex_;
  std::unordered_map<std::size_t, std::vector<std::shared_ptr<Entry>>> entries_;
  std::atomic<std::int64_t> programs_run_ = 0;
};

}  // namespace headroom::closed_form
