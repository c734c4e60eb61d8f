#pragma once

#include <map>
#include <mutex>
#include <string>

#include "planner/study/study.h"
#include "simulator/hardware/hardware.h"

namespace headroom::study {

/// What a cell's result depends on, as a short text: the run after all changes, its models, the card's profile, and
/// this program (`build`: its version, or anything that changes with it).
std::string key_of(const Job& job, const Hardware& hardware, const std::string& build);

/// Cells that are done, in a file: a line of JSON each, added with one write as soon as it is known, so that
/// whatever ends the program loses none that was finished. A line that is no whole one (the disk ran full) is run
/// again; lines of other programs' versions are kept and never found.
class Finished {
 public:
  /// Reads what is there; nothing there is a beginning. Errors: the file is something else, or can't be read.
  static Result<Finished> open(const std::string& file, std::string build);
  Finished(Finished&& other) noexcept;

  const std::string& build() const { return build_; }
  /// By key; null when unknown. Valid for the object's life.
  const Cell* find(const std::string& key) const;
  /// Thread-safe. The error names the file.
  Status add(const std::string& key, const Cell& cell);

 private:
  Finished() = default;

  std::string file_, build_;
  std::map<std::string, Cell> cells_;  ///< as they were when the file was opened
  std::mutex mutex_;
};

}  // namespace headroom::study
