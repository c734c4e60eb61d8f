#include "planner/cli/gate/paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "models/base/pattern.h"

namespace headroom::cli {
namespace {

namespace fs = std::filesystem;

bool is_configuration_name(const fs::path& path) {
  static constexpr std::array<std::string_view, 8> kEndings = {".yaml", ".yml",  ".json",  ".args",
                                                               ".sh",   ".bash", ".slurm", ".sbatch"};
  return std::find(kEndings.begin(), kEndings.end(), path.extension().string()) != kEndings.end();
}

/// Regular files below `folder`, hidden ones left out.
Result<std::vector<std::string>> files_below(const fs::path& folder) {
  std::vector<std::string> out;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, error), end;
  while (!error && at != end) {
    const std::string name = at->path().filename().string();
    std::error_code unknown;
    if (name.starts_with('.')) {
      if (at->is_directory(unknown)) at.disable_recursion_pending();
    } else if (at->is_regular_file(unknown)) {
      out.push_back(at->path().string());
    }
    at.increment(error);
  }
  if (error)
    return fail(Error{.message = "cannot be read: " + error.message(), .file = folder.string(), .key = {}});
  std::sort(out.begin(), out.end());
  return out;
}

/// The folder that a pattern's plain first parts name.
std::string plain_folder(const std::string& pattern) {
  const std::size_t special = pattern.find_first_of("*?[");
  const std::size_t slash = pattern.rfind('/', special);
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : pattern.substr(0, slash);
}

Result<std::vector<GatePath>> meant_by(const std::string& word) {
  std::error_code error;
  const bool folder = fs::is_directory(word, error);
  // What is not there is told where it is read, beside the others' verdicts.
  if (!folder && (fs::exists(word, error) || !is_pattern(word))) return std::vector<GatePath>{{word, false}};
  std::vector<GatePath> out;
  const std::string start = folder ? word : plain_folder(word);
  if (fs::is_directory(start, error)) {
    HEADROOM_ASSIGN(const std::vector<std::string> files, files_below(start));
    const bool here = start == "." && !folder && !word.starts_with("./");
    for (const std::string& file : files) {
      const std::string path = here ? file.substr(2) : file;
      if (folder ? is_configuration_name(path) : matches(word, path, PatternOf::path)) out.push_back({path, folder});
    }
  }
  if (out.empty())
    return fail(Error{.message = "expected configurations, found no file", .file = word, .key = {}});
  return out;
}

}  // namespace

Result<std::vector<GatePath>> gate_paths(const std::vector<std::string>& words) {
  std::vector<GatePath> out;
  std::set<std::string> seen;
  for (const std::string& word : words) {
    HEADROOM_ASSIGN(const std::vector<GatePath> meant, meant_by(word));
    for (const GatePath& one : meant)
      if (seen.insert(one.path).second) out.push_back(one);
  }
  return out;
}

}  // namespace headroom::cli
