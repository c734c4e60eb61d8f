#pragma once

#include <string>
#include <utility>
#include <vector>

#include "simulator/job/step.h"

namespace headroom {

/// What readers put steps together from.

inline Action role_action(Verb verb, std::string role, Output output = Output::logprobs) {
  Action action;
  action.verb = verb;
  action.role = std::move(role);
  action.output = output;
  return action;
}

/// A procedure of the role's own loop.
inline Action call_action(std::string role, std::string call) {
  Action action = role_action(Verb::call, std::move(role));
  action.call = std::move(call);
  return action;
}

/// Residency of some parts (bits of Parts) of a role.
inline Action parts_action(Verb verb, std::string role, unsigned parts) {
  Action action = role_action(verb, std::move(role));
  action.parts = parts;
  return action;
}

/// `role`: whose weights the engine takes part with, or empty.
inline Action engine_action(Verb verb, std::string engine, std::string role = "") {
  Action action = role_action(verb, std::move(role));
  action.engine = std::move(engine);
  return action;
}

/// `name`: shown in place of the kind's.
inline PhaseSpec make_phase(PhaseKind kind, std::vector<Action> actions = {}, std::string name = "") {
  PhaseSpec phase;
  phase.kind = kind;
  phase.name = std::move(name);
  phase.actions = std::move(actions);
  return phase;
}

/// What happens between two phases: no row of its own.
inline PhaseSpec between_phases(std::vector<Action> actions = {}) {
  PhaseSpec phase = make_phase(PhaseKind::empty_cache, std::move(actions));
  phase.reported = false;
  return phase;
}

}  // namespace headroom
