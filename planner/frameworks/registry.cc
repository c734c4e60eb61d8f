#include "planner/frameworks/registry.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "models/base/nearest.h"

namespace headroom {

std::string Notice::text() const {
  return Error{.message = message, .file = file, .line = line, .key = key}.text();
}

std::span<const Framework> frameworks() {
  return {};
}

const Framework* find_framework(std::string_view name) {
  for (const Framework& framework : frameworks())
    if (framework.name == name) return &framework;
  return nullptr;
}

namespace {

std::string known_names() {
  std::string names;
  for (const Framework& framework : frameworks())
    names += (names.empty() ? "" : ", ") + std::string(framework.name);
  return names;
}

Result<JobInput> read_files(std::span<const std::string> paths) {
  JobInput input;
  for (const std::string& path : paths) {
    HEADROOM_ASSIGN(Document document, read_document(path));
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    input.files.push_back({.path = path, .document = std::move(document), .text = text.str()});
  }
  return input;
}

}  // namespace

Result<ReadJob> read_job(std::span<const std::string> paths, const JobOptions& options) {
  if (paths.empty()) return fail("expected a configuration file, found none");
  HEADROOM_ASSIGN(const JobInput input, read_files(paths));
  return read_job(input, options);
}

Result<ReadJob> read_job(const JobInput& input, const JobOptions& options) {
  if (!options.framework.empty()) {
    const Framework* framework = find_framework(options.framework);
    if (framework == nullptr)
      return fail(fmt::format("--framework: expected one of {}, found {}", known_names(), options.framework));
    return framework->read(input, options);
  }
  for (const Framework& framework : frameworks())
    if (framework.detect(input)) return framework.read(input, options);
  return fail(
      Error{.message = fmt::format("no known framework's keys are in it; expected a configuration of {} "
                                   "(--framework says which)",
                                   known_names()),
            .file = input.files.empty() ? "" : input.files.back().path,
            .key = {}});
}

}  // namespace headroom
