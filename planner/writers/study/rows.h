#pragma once

#include <string>
#include <vector>

#include "planner/study/study.h"

namespace headroom::writers {

/// The heads and cells of a study's rows for people; the first column is the strategy.
std::vector<std::string> study_heads();
std::vector<std::string> study_row(const study::Results& results, const study::Cell& cell);

/// A study's jobs in the order of its cells, each with its cells.
struct JobCells {
  std::string job;
  std::vector<const study::Cell*> cells;
};
std::vector<JobCells> by_job(const study::Results& results);

/// `name · framework · 4 × NVIDIA GeForce RTX 3090`.
std::string job_title(const JobCells& job);

/// `312 cells: 300 done, 10 out of memory, 2 failed`.
std::string study_totals(const study::Results& results);

}  // namespace headroom::writers
