#pragma once

#include <string>
#include <utility>
#include <vector>

#include "simulator/job/actions.h"

namespace headroom {

/// A step while it is put together: phases in their order, actions at the end of the last one.
class StepBuilder {
 public:
  std::vector<PhaseSpec> take() { return std::move(phases_); }

  /// `name`: shown in place of the kind's.
  PhaseSpec& phase(PhaseKind kind, std::string name = "") {
    phases_.push_back(make_phase(kind, {}, std::move(name)));
    return phases_.back();
  }
  /// What follows happens between two phases: no row of its own.
  void between() { phases_.push_back(between_phases()); }

  Action& act(Verb verb, const std::string& role, unsigned parts = 0) {
    phases_.back().actions.push_back(parts_action(verb, role, parts));
    return phases_.back().actions.back();
  }
  void forward(const std::string& role, Output output) { act(Verb::forward, role).output = output; }
  /// `role`: whose weights the engine takes part with, or empty.
  void engine(Verb verb, const std::string& role = "", const std::string& name = "rollout") {
    phases_.back().actions.push_back(engine_action(verb, name, role));
  }

 protected:
  std::vector<PhaseSpec> phases_;
};

}  // namespace headroom
