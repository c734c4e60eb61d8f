#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/frameworks/read_job.h"
#include "planner/frameworks/sizes.h"
#include "simulator/job/loop_kind.h"

namespace headroom {

/// What Headroom knows of one framework: a row of the table in registry.cc. To add one, write its folder and
/// add its row; nothing else changes.
struct Framework {
  std::string_view name;     ///< as `--framework` takes it
  std::string_view summary;  ///< what it reads
  /// Whether these files are this framework's: looks for keys that no other framework has. Cheap.
  bool (*detect)(const JobInput& input);
  /// The Job of these files. Errors name FILE:LINE and key.
  Result<ReadJob> (*read)(const JobInput& input, const JobOptions& options);
  /// What search may vary in this run. Null: nothing.
  std::vector<Knob> (*knobs)(const ReadJob& read);
  /// The Job with `choices` made, without reading anything again: microseconds. Equal to reading the files
  /// with the settings of `settings_of` as overrides. Errors: a value that the knob does not take, or a
  /// combination that the framework refuses.
  Result<Job> (*with)(const ReadJob& read, std::span<const Choice> choices);
  /// The framework's own keys that `choices` set, coupled ones included, in the order they are best written.
  Result<std::vector<Setting>> (*settings_of)(const ReadJob& read, std::span<const Choice> choices);
  /// The files with `settings` changed, in the same schema generation, as text; unknown keys are kept.
  Result<std::string> (*write)(const ReadJob& read, std::span<const Setting> settings,
                               const WriteHeader& header);
  /// The script that launches the run with `settings` changed, all else kept; and `settings` alone as words
  /// of its launch. Null: not known.
  Result<std::string> (*write_script)(const ReadJob& read, std::span<const Setting> settings,
                                      const WriteHeader& header) = nullptr;
  Result<std::string> (*write_overrides)(const ReadJob& read, std::span<const Setting> settings,
                                         const WriteHeader& header) = nullptr;
  std::span<const LoopKind* const> loops = {};  ///< of trainers whose code is their own
  std::span<const SizeKey> sizes = {};          ///< numbers of a run, by the framework's keys
};

/// Every framework, in the order in which detection asks them.
std::span<const Framework> frameworks();

/// Every trainer's own loop, framework by framework.
std::vector<const LoopKind*> loops();

/// By name; null when unknown.
const Framework* find_framework(std::string_view name);

/// Reads `paths` (later laid over earlier; `--` is the command in `options.words`; of a script the run that a
/// framework knows), finds their framework and reads the Job. Errors: a file that
/// can't be read, a framework that can't be told (the message lists those known), or the framework's own.
Result<ReadJob> read_job(std::span<const std::string> paths, const JobOptions& options);

/// The same of one text that is no file's (standard input), named `name`.
Result<ReadJob> read_job_text(std::string text, const std::string& name, const JobOptions& options);

/// Whether that is all that is wrong with a file: no framework knows it, or it starts no run at all. In a folder of many
/// files it is none to judge.
bool is_no_run(const Error& error);

/// The same of files that are already read.
Result<ReadJob> read_job(const JobInput& input, const JobOptions& options);

}  // namespace headroom
