#include "planner/frameworks/settings/knobs.h"

#include <fmt/format.h>

#include "planner/frameworks/chatlearn/rlhf/placeholders.h"
#include "planner/frameworks/chatlearn/rlhf/settings.h"
#include "planner/frameworks/shell/launch.h"
#include "planner/frameworks/write_back.h"

namespace headroom::chatlearn::rlhf {
namespace {

using settings::shown;
using Keys = std::vector<Setting>;
using Row = settings::KnobRow<Settings>;

/// Python's words, as the placeholders' loader reads them.
std::string python(const std::string& value) {
  return value == "true" ? "True" : value == "false" ? "False" : value;
}

template <ModelIndex index>
constexpr Row frees(const char* name) {
  return {name, "the model is on the GPUs only while it works", false,
          [](const Settings& s) { return s.model(index).exists && s.moves(s.model(index)); },
          [](const Settings& s) { return shown(s.model(index).free.all); }, [](const Settings&) { return settings::flags(); },
          [](const Settings& s, const std::string& v) {
            return Keys{{fmt::format("models.{}.free_memory", s.model(index).name), v}};
          }};
}

std::vector<std::string> batches(std::int64_t current) {
  std::vector<std::int64_t> out = settings::doublings(1, 64);
  out.push_back(current);
  return settings::texts(std::move(out));
}

// clang-format off
const Row kRows[] = {
    frees<kPolicy>("free_memory_policy"), frees<kReference>("free_memory_reference"), frees<kReward>("free_memory_reward"),
    frees<kValue>("free_memory_value"), frees<kPpoPolicy>("free_memory_ppo_policy"), frees<kPpoValue>("free_memory_ppo_value"),
    {"micro_batch", "sequences a GPU trains on at once", false, [](const Settings&) { return true; },
     [](const Settings& s) { return shown(s.micro_batch); },
     [](const Settings& s) {
       const Model& m = s.model(kPpoPolicy);
       return settings::texts(settings::divisors(std::max<std::int64_t>(1, s.global() * m.tensor * m.pipeline / m.gpus)));
     },
     [](const Settings& s, const std::string& v) {
       Keys out{{"runtime.train_micro_batch_size", v}};
       if (!s.global_batch) out.push_back({"runtime.train_global_batch_size", shown(s.global())});
       return out;
     }},
    {"generation_batch", "sequences that models without a batch of their own take at once", false, [](const Settings&) { return true; },
     [](const Settings& s) { return shown(s.generation_batch); }, [](const Settings& s) { return batches(s.generation_batch); },
     [](const Settings&, const std::string& v) { return Keys{{"runtime.generation_batch_size", v}}; }},
    {"reference_batch", "sequences that the reference scores at once", false,
     [](const Settings& s) { return s.model(kReference).exists && s.model(kReference).generation_batch.has_value(); },
     [](const Settings& s) { return shown(*s.model(kReference).generation_batch); },
     [](const Settings& s) { return batches(*s.model(kReference).generation_batch); },
     [](const Settings&, const std::string& v) { return Keys{{"models.reference.generation_batch_size", v}}; }},
    {"sync_buffer_mb", "MiB of weights that are sent at once", false, [](const Settings&) { return true; },
     [](const Settings& s) { return shown(s.buffer_mb); },
     [](const Settings& s) { return settings::texts({50, 100, 200, 400, s.buffer_mb}); },
     [](const Settings&, const std::string& v) { return Keys{{"runtime.coalesced_buffer_mb", v}}; }},
};
// clang-format on

const settings::KnobTable<Settings> kTable{"ChatLearn", kRows, assign, make_job};

const Settings& settings_of(const ReadJob& read) {
  return static_cast<const Settings&>(*read.settings);
}

/// What is changed, and for what the main file asks the environment: the variable's name, or empty.
struct Change {
  std::string key, value, variable;
};

std::vector<Change> changes(const ReadJob& read, std::span<const Setting> settings) {
  std::vector<Change> out;
  for (const Setting& one : settings) {
    const auto found = settings_of(read).placeholders.find(one.key);
    const bool asked = found != settings_of(read).placeholders.end();
    out.push_back({one.key, python(one.value), asked ? placeholder_name(found->second) : std::string()});
  }
  return out;
}

std::string exports(std::span<const Change> changes) {
  std::string out;
  for (const Change& one : changes)
    out += one.variable.empty() ? fmt::format("{}={}\n", one.key, one.value)
                                : fmt::format("export {}={}\n", one.variable, one.value);
  return out;
}

/// The script with variables exported in the line before the launch.
Result<std::string> write_script(const ReadJob& read, std::span<const Change> changes, const WriteHeader& header) {
  const JobInput::File* file = nullptr;
  for (const JobInput::File& one : read.input.files)
    if (one.launch != nullptr) file = &one;
  for (const Change& one : changes)
    if (one.variable.empty())
      return fail(Error{.message = "stands in the configuration without a variable; change it there",
                        .file = file->path,
                        .key = one.key});
  std::string text = file->text;
  std::size_t at = std::min(file->launch->place.begin, text.size());
  at = text.rfind('\n', at) == std::string::npos ? 0 : text.rfind('\n', at) + 1;
  std::string lines;
  for (const std::string& line : header.lines) lines += "# " + line + "\n";
  text.insert(at, lines + exports(changes));
  return text;
}

}  // namespace

bool is_run(const ReadJob& read) {
  return dynamic_cast<const Settings*>(read.settings.get()) != nullptr;
}

std::vector<Knob> knobs(const ReadJob& read) {
  return kTable.knobs(read);
}
Result<Job> with(const ReadJob& read, std::span<const Choice> choices) {
  return kTable.with(read, choices);
}
Result<std::vector<Setting>> settings_for(const ReadJob& read, std::span<const Choice> choices) {
  return kTable.settings_of(read, choices);
}

Result<std::string> write(const ReadJob& read, std::span<const Setting> settings, const WriteHeader& header) {
  const std::vector<Change> wanted = changes(read, settings);
  if (!settings_of(read).script.empty()) return write_script(read, wanted, header);
  std::vector<Setting> texts;
  for (const Change& one : wanted)
    texts.push_back({one.key, one.variable.empty()
                                  ? one.value
                                  : "'" + with_default(settings_of(read).placeholders.at(one.key), one.value) + "'"});
  return write_back(read, texts, header);
}

Result<std::string> write_exports(const ReadJob& read, std::span<const Setting> settings, const WriteHeader& header) {
  std::string head;
  for (const std::string& line : header.lines) head += "# " + line + "\n";
  return head + exports(changes(read, settings));
}

}  // namespace headroom::chatlearn::rlhf
