#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/result.h"
#include "planner/frameworks/shell/word.h"

namespace headroom::shell {

/// One start of a Python program: what a script would run, wrappers taken off.
struct Launch {
  std::string runner;   ///< `python`, `torchrun`, `deepspeed`, `accelerate`; else the program that was named
  std::string program;  ///< a module (`verl.trainer.main_ppo`), or the path of a file (`train_grpo.py`)
  bool module = false;  ///< started with `-m`
  std::vector<Word> runner_words;           ///< the runner's own: `--nproc_per_node=8`, `-u`
  std::vector<Word> wrapper_words;          ///< those of `ray job submit`, `srun`, `uv run` … in front
  std::vector<Word> words;                  ///< the program's
  std::map<std::string, Word> environment;  ///< what the script exports or sets for it
  Place place;                              ///< of the command
  bool certain = true;                      ///< false: it stands behind a test that can't be followed

  /// The launch's number of processes a node or of nodes, by any of the runner's spellings; null: not given.
  const Word* runner_option(std::initializer_list<std::string_view> names) const;
};

/// What can't be followed without being an error: a file that `source` did not find, words cut off by a
/// broken line …
struct Remark {
  std::string file;
  int line = 0;
  std::string message;
};

struct Reading {
  std::vector<Launch> launches;  ///< in the order in which they start; equal ones once
  std::vector<Remark> remarks;
};

/// What a script meets when it is read.
struct Context {
  std::vector<std::string> words;                  ///< its positional words, `"$@"`
  std::map<std::string, std::string> environment;  ///< given for this reading; wins over `variable`
  /// A variable of the process; null: none.
  std::function<std::optional<std::string>(const std::string& name)> variable;
  /// The text of a file that the script names (`source env.sh`, `bash train.sh`); null: none can be read.
  std::function<std::optional<std::string>(const std::string& path)> file;
  std::string directory;  ///< where it starts: `pwd`
  /// GPUs of a machine, where a script counts them; none: taken as 8, and remarked.
  std::optional<std::int64_t> gpus;
};

/// Reads a script and follows it: assignments, expansions, arrays, arithmetic, tests, loops, functions,
/// sourced files. Nothing is executed. What a command would print is known for those whose meaning is
/// (`pwd`, `dirname`, `seq` …) and unknown otherwise; unknown values are kept with their origin. Where a test
/// can't be followed both ways are, and what differs after them is unknown. A variable that nothing sets is
/// empty in tests and defaults, and unknown in words: it was meant to be given.
///
/// Lines for Slurm (`#SBATCH --nodes=2`) set what Slurm sets by them. A script that ends on an error before it starts
/// anything, because a variable is not set, is read as if that were set to something that nobody knows.
///
/// Errors: FILE:LINE of broken syntax; more than 1,000,000 steps, 256 MiB of text or 100 levels of nesting.
Result<Reading> read_script(std::string_view text, const std::string& file, const Context& context);

/// The same of a command's words, as a shell passed them on.
Result<Reading> read_command(std::span<const std::string> words, const Context& context);

/// Whether a file is a script or a command line rather than a configuration: by its name (`.sh` …), its first
/// line (`#!`), or by a runner (`python3`, `torchrun`, `ray job submit` …) that starts one of its lines.
bool looks_like_script(std::string_view text, std::string_view path);

}  // namespace headroom::shell
