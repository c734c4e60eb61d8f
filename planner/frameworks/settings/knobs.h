#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/frameworks/settings/effects.h"
#include "planner/frameworks/settings/run.h"

namespace headroom::settings {

/// Adds to `changes` every other used key whose value follows one of them by reference, with the value that
/// it has now: a knob changes what it says and nothing else.
Status pin_followers(const TableSettings& settings, std::vector<Setting>& changes);

/// What search may vary, as a table: a knob is one or more of the framework's own keys set together. Applying
/// one goes through the same rows that reading does, so that a written file gives the searched job.
template <typename S>
struct KnobRow {
  const char* name;
  const char* summary;
  bool changes_numerics;
  bool (*applies)(const S&);
  std::string (*current)(const S&);
  std::vector<std::string> (*values)(const S&);                          ///< the current one among them
  std::vector<Setting> (*settings)(const S&, const std::string& value);  ///< whole keys, in writing order
  Effects effects = {};
  Choice needs = {};
};

/// A framework's table with what it needs of the framework.
template <typename S>
struct KnobTable {
  std::string_view framework;
  std::span<const KnobRow<S>> rows;
  bool (*assign)(S&, const Setting&);  ///< sets the field of a whole key; false: no such key or value
  Result<Job> (*make_job)(const S&);

  std::vector<Knob> knobs(const ReadJob& read) const {
    const S& s = static_cast<const S&>(*read.settings);
    std::vector<Knob> out;
    for (const KnobRow<S>& row : rows) {
      if (!row.applies(s)) continue;
      Knob knob;
      knob.name = row.name;
      knob.summary = row.summary;
      knob.changes_numerics = row.changes_numerics;
      knob.current = row.current(s);
      knob.values = row.values(s);
      if (std::find(knob.values.begin(), knob.values.end(), knob.current) == knob.values.end())
        knob.values.push_back(knob.current);
      knob.needs = row.needs;
      knob.effects = row.effects;
      out.push_back(std::move(knob));
    }
    share_buffers(read.job, out);
    return out;
  }

  /// The keys that `choices` set, in the order of the table; `s` is left as they make it.
  Result<std::vector<Setting>> apply(S& s, std::span<const Choice> choices) const {
    std::vector<Setting> out;
    for (const Choice& choice : choices)
      if (std::none_of(rows.begin(), rows.end(),
                       [&](const KnobRow<S>& row) { return choice.knob == row.name; }))
        return fail(
            Error{.message = fmt::format("is no knob of {}", framework), .file = {}, .key = choice.knob});
    for (const KnobRow<S>& row : rows)
      for (const Choice& choice : choices) {
        if (choice.knob != row.name) continue;
        if (!row.applies(s))
          return fail(Error{.message = "does not apply to this run", .file = {}, .key = choice.knob});
        for (Setting& setting : row.settings(s, choice.value)) {
          if (!assign(s, setting))
            return fail(Error{.message = fmt::format("{} is no value of it", choice.value),
                              .file = {},
                              .key = choice.knob});
          const auto known = std::find_if(out.begin(), out.end(),
                                          [&](const Setting& other) { return other.key == setting.key; });
          if (known == out.end())
            out.push_back(std::move(setting));
          else
            known->value = std::move(setting.value);
        }
      }
    return out;
  }

  Result<Job> with(const ReadJob& read, std::span<const Choice> choices) const {
    S s = static_cast<const S&>(*read.settings);
    HEADROOM_TRY(apply(s, choices));
    HEADROOM_ASSIGN(Job job, make_job(s));
    job.name = read.job.name;
    return job;
  }

  Result<std::vector<Setting>> settings_of(const ReadJob& read, std::span<const Choice> choices) const {
    S s = static_cast<const S&>(*read.settings);
    HEADROOM_ASSIGN(std::vector<Setting> out, apply(s, choices));
    HEADROOM_TRY(pin_followers(s, out));
    return out;
  }
};

/// Numbers sorted, each once, as texts.
inline std::vector<std::string> texts(std::vector<std::int64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  std::vector<std::string> out;
  for (const std::int64_t n : numbers) out.push_back(std::to_string(n));
  return out;
}

inline std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> out;
  for (std::int64_t d = 1; d <= n && d <= 4096; ++d)
    if (n % d == 0) out.push_back(d);
  return out;
}

/// from, 2·from, 4·from … up to `to`.
inline std::vector<std::int64_t> doublings(std::int64_t from, std::int64_t to) {
  std::vector<std::int64_t> out;
  for (std::int64_t n = from; n <= to; n *= 2) out.push_back(n);
  return out;
}

/// Shares of a card from 0.2 to 0.9, and `current`.
std::vector<std::string> fractions(double current);

inline std::vector<std::string> flags() {
  return {"false", "true"};
}

}  // namespace headroom::settings
