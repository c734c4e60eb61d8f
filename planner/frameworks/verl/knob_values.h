#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/frameworks/verl/settings.h"

namespace headroom::verl {

/// Candidate values of knobs, as texts in rising order, the run's own among them.
using Values = std::vector<std::string>;

inline const Values kFlags = {"false", "true"};

std::string word(bool flag);
std::string word(std::int64_t number);
std::string word(std::optional<std::int64_t> number);  ///< null when there is none
std::optional<std::int64_t> number(const std::string& text);

/// Numbers sorted, each once.
Values words(std::vector<std::int64_t> numbers);
/// from, 2·from, 4·from … up to `to`.
std::vector<std::int64_t> doublings(std::int64_t from, std::int64_t to);

/// Sets `field` from a candidate's text; false: it is none.
bool set_flag(bool& field, const std::string& value);
bool set_number(std::int64_t& field, const std::string& value, std::int64_t least = 1);
bool set_number(std::optional<std::int64_t>& field, const std::string& value);

/// Tokens of the longest sequence.
std::int64_t longest(const Settings& s);

/// Sizes that divide a rank's sequences of a mini-batch, as verl asks for.
Values micro_values(const Settings& s, const Worker& w);
/// Powers of two up to what a rank has of the batch.
Values log_prob_values(const Settings& s, const Packing& pass);
/// Budgets that hold 1, 2, 3 … of the longest sequences, up to all that a rank has of `sequences`.
Values budget_values(const Settings& s, const Worker& w, std::int64_t sequences, std::int64_t current);
/// Stages that the actor's layers divide over evenly, where the run leaves their sizes to that.
Values stage_counts(const Settings& s);
/// Sizes of a group inside a node that the model's heads can be split over.
Values head_groups(const Settings& s, std::int64_t gpus, std::int64_t current);

}  // namespace headroom::verl
