#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "models/base/result.h"
#include "planner/configuration/values.h"
#include "planner/frameworks/read_job.h"
#include "planner/frameworks/settings/table.h"
#include "planner/frameworks/shell/launch.h"

namespace headroom::settings {

/// A program's words as argparse takes them: `--flag value`, `--flag=value`, `--flag` alone (true), several
/// values (a list); the last of equal flags wins; a unique beginning of a flag stands for it. Flags become
/// keys of the same name without dashes, placed where they stand.
struct Arguments {
  Layers layers;
  /// Keys whose value nobody knows before the run, with what to do about it.
  std::map<std::string, std::string> unknown;
  std::vector<std::string> stray;  ///< words that no flag takes, in order
};

/// Reads the launch's words, then `--set KEY=VALUE` of `options` over them. `keys`: what the program knows,
/// for beginnings of flags; a beginning of several is left as it is. `dashes`: flags that are spelt with `-`
/// inside are keys with `_` (Hugging Face's parser takes both).
Result<Arguments> read_arguments(const shell::Launch& launch, std::span<const Key> keys,
                                 const JobOptions& options, bool dashes = false);

/// Fails where a key that decides something is not known: what to give, at its place.
void refuse_unknown(Values& values, std::span<const Key> keys, const Release& release,
                    const std::map<std::string, std::string>& unknown);

/// How a program spells what is written.
struct Spelling {
  bool states_false = false;  ///< `--flag false`; else a flag that is off is left out
  /// The launcher's flag for a key, which stands before the program; empty: the key is the program's.
  std::function<std::string(const std::string& key)> of_launcher = {};
};

/// The script with flags changed where they stand, and new ones behind the last word of the launch (the
/// launcher's before the program). A command line becomes a script of one line a flag. Errors: the flag
/// stands in another file than the script's.
Result<std::string> write_arguments(const ReadJob& read, std::span<const Setting> settings,
                                    const WriteHeader& header, const Spelling& spelling);
Result<std::string> write_arguments(const ReadJob& read, std::span<const Setting> settings,
                                    const WriteHeader& header);

}  // namespace headroom::settings
