#pragma once

#include <optional>
#include <string>

#include "models/base/result.h"
#include "simulator/engine/account.h"
#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"
#include "simulator/report/report.h"

namespace headroom {

/// A rollout or reward engine's process on one GPU: which memory it holds after each action on it.
class EngineProcess {
 public:
  /// `hardware` gives the process's context and communicators; an engine inside a trainer's process has
  /// none of its own.
  EngineProcess(const Job& job, const Engine& engine, const Hardware& hardware, bool inside_trainer = false);

  /// What an action does to it: what it passes through at its highest and what it holds afterwards.
  struct Effect {
    Breakdown highest, after;
  };
  /// One of start_engine, generate, sleep, wake_weights, wake_kv, score. `others` is the device memory that
  /// other processes hold (it decides the KV cache at the start). Errors: the model does not divide over the
  /// ranks.
  Result<Effect> act(Verb verb, Bytes others);

  Breakdown device() const { return engine::resident(account_, state_); }
  /// Pinned host memory of this GPU's process.
  Bytes host() const { return engine::host_resident(account_, state_) + engine_.host_swap; }
  const engine::Account& account() const { return account_; }
  bool started() const { return state_ != engine::Residency::absent; }
  const std::string& name() const { return engine_.name; }
  /// What its start-up log would print.
  EngineReport start_up() const;
  /// Why it did not start, or the KV cache that holds fewer sequences than could run: a warning, not a
  /// failure.
  std::optional<std::string> failure() const { return account_.failure; }
  std::optional<std::string> slow() const;

 private:
  const Engine& engine_;
  engine::Host host_;  ///< without the others
  engine::Work work_;
  engine::Account account_;
  engine::Residency state_ = engine::Residency::absent;
};

/// The requests of one replica of `engine` in a step of `job`.
engine::Work engine_work(const Job& job, const Engine& engine);

}  // namespace headroom
