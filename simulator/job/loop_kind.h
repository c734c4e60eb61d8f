#pragma once

#include <array>
#include <memory>
#include <span>
#include <string_view>

#include "simulator/job/role.h"
#include "simulator/job/step.h"

namespace headroom {

namespace trainer {
class Loop;
class Store;
struct Experience;
}  // namespace trainer

/// What of its model an action runs.
enum class ModelWork { none, forward, generate, train };

/// Something that a trainer's own loop does: a procedure of its own, which steps call by name (`Verb::call`),
/// or a standard verb that it does too (generate, forward, train).
struct LoopCall {
  std::string_view name;
  void (*run)(trainer::Loop&, trainer::Experience&) = nullptr;  ///< null: a standard verb
  ModelWork work = ModelWork::none;
  unsigned parts = 0;  ///< bits of Parts of the role that it needs on the device
  /// Calls and verbs, of any role, without which it has nothing to work on: each must have run before.
  std::array<std::string_view, 3> after = {};
};

/// A trainer whose loop is its own: what its code does to a batch. Frameworks state theirs beside the loop
/// (planner/frameworks/NAME); a role that has none runs the plain or the packed loop.
struct LoopKind {
  std::string_view name;  ///< as a job file's `trainer` has it
  std::unique_ptr<trainer::Loop> (*make)(trainer::Store& store) = nullptr;
  std::span<const LoopCall> calls;
  /// What an engine of another kind than the trainer's own `generate` makes suits it too: it takes sequences
  /// from the host.
  bool takes_sequences = false;
};

/// The entry of `kind` for what `action` asks, a call or a standard verb; null when it has none.
const LoopCall* find_call(const LoopKind& kind, const Action& action);

/// What `action` runs of the model of `role`, whose it is (null: of none).
ModelWork model_work(const Action& action, const Role* role);
/// Parts that `action` finds on the device, or fails.
unsigned parts_needed(const Action& action, const Role* role);

}  // namespace headroom
