#include "planner/frameworks/verl/knobs.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/frameworks/verl/job.h"
#include "planner/frameworks/verl/keys.h"
#include "planner/frameworks/verl/knob_table.h"
#include "planner/frameworks/verl/read.h"

namespace headroom::verl {
namespace {

/// Whether the run's release has every key that the knob writes.
bool in_release(const Settings& s, const KnobRow& row) {
  for (const Setting& setting : row.keys(s)) {
    const Key* key = find_key(setting.key, s.version);
    if (key == nullptr || s.version < key->since || s.version >= key->until) return false;
    const bool exact = key->path == setting.key, inside = key->kind == Kind::map;
    if (!exact && !inside) return false;
  }
  return true;
}

bool usable(const Settings& s, const KnobRow& row) {
  return row.applies(s) && in_release(s, row);
}

Status apply(Settings& settings, std::span<const Choice> choices) {
  for (const Choice& choice : choices)
    if (std::none_of(knob_table().begin(), knob_table().end(),
                     [&](const KnobRow& row) { return row.name == choice.knob; }))
      return fail(Error{.message = "is no knob of verl", .file = {}, .key = choice.knob});
  for (const KnobRow& row : knob_table()) {
    for (const Choice& choice : choices) {
      if (row.name != choice.knob) continue;
      if (!row.applies(settings))
        return fail(Error{.message = "does not apply to this run", .file = {}, .key = choice.knob});
      if (!row.set(settings, choice.value))
        return fail(Error{
            .message = fmt::format("{} is no value of it", choice.value), .file = {}, .key = choice.knob});
    }
  }
  return {};
}

}  // namespace

std::vector<Knob> knobs(const ReadJob& read) {
  const Settings& s = settings_of(read);
  std::vector<Knob> out;
  for (const KnobRow& row : knob_table()) {
    if (!usable(s, row)) continue;
    Knob knob{.name = row.name,
              .summary = row.summary,
              .changes_numerics = row.changes_numerics,
              .current = row.current(s),
              .values = row.values(s),
              .needs = row.needs,
              .effects = row.effects,
              .exact_only = row.exact_only};
    out.push_back(std::move(knob));
  }
  settings::share_buffers(read.job, out);
  return out;
}

Result<Job> with(const ReadJob& read, std::span<const Choice> choices) {
  Settings settings = settings_of(read);
  HEADROOM_TRY(apply(settings, choices));
  HEADROOM_ASSIGN(Job job, make_job(settings));
  job.name = read.job.name;
  return job;
}

Result<std::vector<Setting>> settings_for(const ReadJob& read, std::span<const Choice> choices) {
  Settings settings = settings_of(read);
  HEADROOM_TRY(apply(settings, choices));
  std::vector<Setting> out;
  for (const KnobRow& row : knob_table()) {
    if (std::none_of(choices.begin(), choices.end(),
                     [&](const Choice& choice) { return choice.knob == row.name; }))
      continue;
    for (Setting& setting : row.keys(settings)) {
      const auto known =
          std::find_if(out.begin(), out.end(), [&](const Setting& s) { return s.key == setting.key; });
      if (known == out.end()) {
        out.push_back(std::move(setting));
      } else {
        known->value = std::move(setting.value);
      }
    }
  }
  return out;
}

}  // namespace headroom::verl
