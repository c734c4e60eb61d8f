#pragma once

#include <string>
#include <vector>

#include "planner/search/plan.h"

namespace headroom::writers {

/// One line: the best choice with its seconds, what it leaves and changes; where none fits, by how much the nearest
/// misses.
std::string plan_verdict(const search::Plan& plan);

/// The ranked choices for people: what each costs and leaves, which phase limits it, what it changes.
std::string plan_table(const search::Plan& plan, Bytes budget);

/// What a plan comes to on one of several cards.
struct CardPlan {
  std::string gpu;      ///< as it was asked for
  std::string refusal;  ///< why there is no plan; empty: there is
  bool fits = false;
  search::Outcome outcome;        ///< of the best choice
  std::vector<Setting> settings;  ///< its changes
  std::vector<Choice> choices;
};

/// Cards one a line, for people.
std::string card_table(const std::vector<CardPlan>& cards);

/// `headroom.report/1` of the best choice (of the run as given when none fits, if `input` is set), with
/// `search` and `choices`; and with `cards`, where several were asked for.
std::string plan_json(const search::Plan& plan, const Report& input, const std::vector<CardPlan>& cards = {});

/// `KEY=VALUE KEY=VALUE`, or the knobs where the framework has no keys for them.
std::string settings_text(const std::vector<Setting>& settings, const std::vector<Choice>& choices);

}  // namespace headroom::writers
