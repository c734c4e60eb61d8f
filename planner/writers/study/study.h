#pragma once

#include <string>

#include "planner/study/study.h"

namespace headroom::writers {

/// A study for people: of each job a row a strategy and emptying. GiB.
std::string study_table(const study::Results& results, bool plain = false);

/// The same as GitHub-flavoured Markdown.
std::string study_markdown(const study::Results& results);

/// RFC 4180, a row a cell. Bytes as integers.
std::string study_csv(const study::Results& results);

/// `headroom.study/1`, and its schema.
std::string study_json(const study::Results& results);
const char* study_schema();

/// One self-contained page: of each cell the whole step's timeline of reserved and allocated memory with the peak
/// marked and, dotted, the peak without fragmentation; who made the free memory. It loads nothing.
std::string study_html(const study::Results& results);

/// Where the free memory at a cell's peak comes from, by the phases in which it was got, largest first.
struct FreeOrigin {
  std::string phase;
  Bytes bytes = 0, kept = 0;
};
std::vector<FreeOrigin> free_origins(const std::vector<FreePart>& parts);
/// What it was got for: `logits`, `kv_cache`, and of temporaries their operation too.
std::string kind_of(const FreePart& part);

}  // namespace headroom::writers
