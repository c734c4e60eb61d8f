#pragma once

#include <map>
#include <string>

#include "models/base/result.h"
#include "planner/configuration/layers.h"
#include "planner/frameworks/read_job.h"

namespace headroom::chatlearn::rlhf {

/// The files of a run as ChatLearn up to 1.0.3 lays them: the main file with its includes, and below
/// `models.NAME.args` those of each model's `model_config_file` with theirs. A file's own keys go before its includes,
/// later includes before earlier ones. Placeholders are replaced. Then `--set`.
///
/// Files are looked for beside the one that names them, then under --include-path. Errors: a file that is nowhere (the
/// places tried are listed), includes that go in a circle.
Result<Layers> lay_run(const std::string& path, const Document& main, const JobOptions& options,
                       const std::map<std::string, std::string>& environment);

/// A file as PyYAML reads it: of a key given twice at the top the last counts.
Result<Document> read_last_wins(const std::string& path);
Result<Document> parse_last_wins(std::string text, const std::string& path);

/// Where `wanted`, named by `file`, lies. Errors: nowhere; the places that were tried.
Result<std::string> find_file(const std::string& wanted, const std::string& file, int line, const JobOptions& options,
                              const std::string& key);

}  // namespace headroom::chatlearn::rlhf
