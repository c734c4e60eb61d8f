#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/configuration/layers.h"
#include "planner/configuration/model_lookup.h"
#include "planner/frameworks/read_job.h"
#include "planner/frameworks/settings/table.h"
#include "simulator/hardware/hardware.h"

namespace headroom::settings {

/// What every framework's settings of one run hold beside its own keys.
struct TableSettings : FrameworkSettings {
  Release release;
  Versions versions;
  std::string gpu;
  Bytes card = 0;        ///< memory of the card; 0: its kind is not known
  bool resumed = false;  ///< the run continues from a checkpoint
  int steps = 3;
  std::vector<std::string> assumptions, not_modelled;

  std::shared_ptr<const Layers> layers;  ///< as read, so that knobs can tell which keys follow one
  std::vector<std::string> used;         ///< every key that was asked for

  bool since(int major, int minor, int patch = 0) const { return release >= Release{major, minor, patch}; }
};

/// Files laid over each other, lists of overrides among them, then `--set`. Errors: a file that is neither a
/// map nor such a list; `expected` says in the message what it should be.
Result<Layers> lay_files(const JobInput& input, const JobOptions& options, std::string_view expected);

/// The releases that the command line states, else `headroom.versions.LIBRARY` (the framework's own key ends
/// in `framework`). Errors stay in `values`: a text that is no release, nor `head`, a name of unreleased
/// code.
Versions stated_versions(Values& values, const JobOptions& options, std::string_view framework,
                         std::string_view head = {});

/// Lays what the command line states and every framework keeps alike over `settings`: card, steps,
/// resumption.
void take_options(TableSettings& settings, const JobOptions& options);

/// The card that the run names; of a kind that nobody knows, one without figures.
Hardware card_of(const TableSettings& settings);

/// Says that what `key` asks for has no program, which leaves the verdict undetermined.
void leave_unmodelled(Values& values, TableSettings& settings, const std::string& key,
                      const std::string& what);

/// Warns where the model that `key` names is unknown and has the shape of one that its name mentions.
void tell_shape(Values& values, const std::string& key, const ModelRequest& request);

/// The architecture that a key names; null after an error, which `values` keeps at that key.
std::shared_ptr<const Architecture> model_at(Values& values, const std::string& key,
                                             const ModelRequest& request);

/// The values of a config.json that stand in the configuration itself, below `headroom.model_config`: in place
/// of a model's name. Null: none stand there, or an error, which `values` keeps.
std::shared_ptr<const Architecture> stated_model(Values& values, HeadKind head);
/// That key, for a framework's table.
Key stated_model_key();

/// The keys under which a framework's files keep what the command line can state. Empty: no key does.
struct OptionKeys {
  std::vector<std::string> models;
  std::string release, nodes, gpus_per_node;
};

/// `--set` and the command line's other wishes as overrides, so that a written configuration stands alone.
std::vector<std::string> effective_overrides(const JobOptions& options, const OptionKeys& keys);

/// The command line's `value` in place of what is given of `key`, which need not be known of the launch then
/// (a cluster's variable). Nothing where either is missing. Errors: as `Layers::apply`.
Status state(Layers& layers, const std::string& key, const std::optional<std::int64_t>& value);

/// Whose run it is, and where it was read from.
struct Origin {
  std::string_view framework;  ///< as users call it: NeMo RL
  std::span<const Key> keys;
  const JobInput& input;
  std::string named_after;  ///< the file that gives the job its name
  std::vector<std::string> overrides;
};

/// What every reader ends with: says what became of each key, makes the job, and puts together what is handed
/// back. Errors: what `values` holds, then what `make_job` finds, at its key's place.
Result<ReadJob> finish(Values& values, std::shared_ptr<TableSettings> settings, const Origin& origin,
                       const std::function<Result<Job>()>& make_job);

}  // namespace headroom::settings
