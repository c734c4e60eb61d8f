#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/result.h"
#include "models/document/document.h"
#include "simulator/job/job.h"

namespace headroom {

namespace shell {
struct Launch;
}

/// What the command line adds to the files of a run.
struct JobOptions {
  std::string framework;               ///< name of a registered framework; empty: detected from the content
  std::string model;                   ///< directory, config.json or preset name; empty: as the files say
  std::vector<std::string> overrides;  ///< `--set KEY=VALUE` in the framework's own keys, in order
  std::vector<std::string> include_paths;
  std::string gpu;  ///< hardware profile name or file
  std::optional<std::int64_t> nodes, gpus_per_node;
  std::optional<int> steps;
  bool resumed = false;  ///< the run continues from a checkpoint: optimizer states exist at start
  Versions versions;     ///< those that the user states; what is empty is inferred
  std::map<std::string, std::string>
      environment;                 ///< variables of the launch (`--env`); the process's own are read after
  std::vector<std::string> words;  ///< behind `--`: a script's words, a command, or more overrides
  std::map<std::string, Document> models = {};  ///< config.json's values of models that an input states itself, by name

  /// Those of `name`; null: the input states none.
  Document stated_model(const std::string& name) const {
    const auto found = models.find(name);
    return found == models.end() ? Document() : found->second;
  }
};

/// Files of a run as given, parsed.
struct JobInput {
  struct File {
    std::string path;
    Document document;
    std::string text;  ///< as read, so that a writer can keep comments
    /// Of a script or a command: the run that it starts; `document` holds nothing then.
    std::shared_ptr<const shell::Launch> launch = {};
  };
  std::vector<File> files;  ///< later ones are laid over earlier ones
};

/// One value by the framework's own dotted key, in its own notation (`true`, `0.6`, `[1,2]`).
struct Setting {
  std::string key, value;
  bool operator==(const Setting&) const = default;
};

/// Something to tell, with the place it comes from.
struct Notice {
  std::string file;
  int line = 0;  ///< 0: unknown
  std::string key, message;
  std::string text() const;  ///< `FILE:LINE: key: message`
};

/// What became of one key of the input.
struct KeyUse {
  enum class State {
    used,          ///< it decides something in the Job
    defaulted,     ///< it was not given; `value` is the framework's default, and it decides something
    ignored,       ///< given; has no effect on memory or time
    not_modelled,  ///< given; it has an effect, which Headroom does not model
    unknown,       ///< given; Headroom does not know it (kept when writing)
  };
  std::string key, value, file;
  int line = 0;
  State state = State::used;
};

/// A framework's own settings of a run, typed; made and understood by its folder only.
class FrameworkSettings {
 public:
  virtual ~FrameworkSettings() = default;
};

/// A Job with what is needed to explain it, vary it and write it back.
struct ReadJob {
  Job job;
  std::vector<Notice> warnings;
  std::vector<KeyUse> keys;
  JobInput input;
  std::vector<std::string> overrides;
  /// Other releases of the framework that the run may as well be meant for, where nothing tells.
  std::vector<std::string> alternatives = {};
  std::shared_ptr<const FrameworkSettings> settings;
};

/// One knob set to one of its values.
struct Choice {
  std::string knob, value;
  bool operator==(const Choice&) const = default;
};

/// Phases of a run by what happens in them. A phase may be several.
enum Activity : unsigned {
  kGenerating = 1,  ///< an engine acts
  kScoring = 2,     ///< passes without gradients
  kTraining = 4,
  kResting = 8,  ///< none of these: models are built, moved, saved
};
inline constexpr unsigned kAllActivities = kGenerating | kScoring | kTraining | kResting;

/// One end of a knob's values in their order.
enum class End { none, first, last };

/// What turning a knob does to phases of some activities. A search takes bounds from it, tests hold it against
/// random configurations.
struct Effect {
  unsigned activities = kAllActivities;
  bool seconds = true;   ///< their time may change
  bool memory = true;    ///< what they take may change
  End faster = End::none;  ///< towards this end no phase becomes slower
  End frugal = End::none;  ///< towards this end no phase takes more device memory
  /// The share by which a faster value may be slower after all.
  double slack = 0;
  /// The last value may take less than those before it: one micro-batch leaves nothing to be added up.
  bool spares_at_end = false;
  std::string_view role = {};  ///< only phases in which this role acts; empty: all
  /// A flag of the run with which no end is known; it makes nothing faster itself.
  std::string_view unless = {};
  /// With that flag, the share by which a faster value may be slower after all; 0: nothing is known.
  double slack_unless = 0;
  Bytes uneven = 0;  ///< a more frugal value may take as much more after all
};

/// One thing that search may vary.
struct Knob {
  std::string name;                 ///< what `--vary` and `--fix` call it
  std::string summary;              ///< what it trades
  bool changes_numerics = false;    ///< the training result changes: only varied when asked for
  std::string current;              ///< the run's value
  std::vector<std::string> values;  ///< candidates that suit this run, the current one among them
  Choice needs = {};                ///< it matters only when that knob has that value; empty: always
  /// Phases that none of them names are not touched. Empty: nothing is known, it may change everything.
  std::vector<Effect> effects = {};
  bool exact_only = false;  ///< the values differ in the simulator alone
};

/// What a written configuration says about itself in its first lines.
struct WriteHeader {
  std::vector<std::string> lines;  ///< without comment marks
};

}  // namespace headroom
