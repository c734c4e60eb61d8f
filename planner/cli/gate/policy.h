#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/result.h"
#include "planner/cli/arguments.h"

namespace headroom::cli {

/// What an undetermined verdict counts as.
enum class Undetermined { undetermined, fits, over };

/// What a repository asks of its configurations; what is absent is not asked.
struct Rules {
  std::optional<std::string> gpu;
  std::vector<Limit> budgets;
  std::optional<Bytes> host_budget;
  std::optional<Limit> margin;
  std::optional<int> steps;
  std::optional<double> max_growth;  ///< of the device peak over the baseline, as a part
  std::optional<Undetermined> undetermined;
  std::optional<std::set<std::string>> allowed_warnings;  ///< by code; another one counts as too much
  bool skip = false;
};

/// A policy file, `.headroom.yaml`:
///
///     headroom: policy/1
///     gpu: H100                 # any of the rules, for every configuration
///     budget: 76GiB             # or POOL=SIZE, or a list of both
///     undetermined: over        # or fits; default: an exit code of its own
///     allowed_warnings: [kv-preemption]
///     paths:                    # for some of them; later entries win
///       - match: configs/large/**
///         budget: 90%
///       - match: "**/drafts/*"
///         skip: true
///
/// Patterns are matched against paths relative to the policy's folder (glob.h). Flags of the command line win.
class Policy {
 public:
  /// Reads `file`; an unknown key is an error with its line and the nearest known one.
  static Result<Policy> read(const std::string& file);

  /// The rules for one configuration.
  Rules of(const std::string& path) const;

 private:
  struct Entry {
    std::string match;
    Rules rules;
  };

  std::string folder_;
  Rules all_;
  std::vector<Entry> entries_;
};

/// The shared flags with what `rules` say where the command line says nothing.
Common with_rules(const Common& common, const Rules& rules);

/// `2%` or `0.02`, from 0 to 10.
Result<double> parse_growth(std::string_view text);

}  // namespace headroom::cli
