#include "planner/cli/output_names.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>

namespace headroom::cli {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> wrong(const Option& option, std::string message) {
  return fail(Error{.message = std::move(message), .file = {}, .key = option.name});
}

/// One spelling of a file's name, links and `..` resolved as far as the file exists.
std::string place_of(const std::string& name) {
  std::error_code error;
  const fs::path place = fs::weakly_canonical(fs::absolute(name, error), error);
  return error ? name : place.string();
}

bool may_be_shared(const std::string& name) {
  std::error_code error;
  const fs::file_status status = fs::status(name, error);
  return fs::exists(status) && !fs::is_regular_file(status);
}

/// The argument that names this file too, if one does.
const Option* named_by(std::span<const Option> options, const Arguments& arguments, const std::string& name) {
  std::error_code error;
  for (const Option& option : options)
    if (!option.output)
      for (const std::string& value : arguments.all(option.name))
        if (fs::equivalent(value, name, error)) return &option;
  return nullptr;
}

}  // namespace

Status check_output_names(std::span<const Option> options, const Arguments& arguments) {
  std::map<std::string, std::string> taken;  // place -> flag
  for (const Option& option : options) {
    const std::optional<std::string> name = arguments.find(option.name);
    if (!option.output || !name) continue;
    if (name->empty()) return wrong(option, "expected a file name or '-', found nothing");
    if (may_be_shared(*name)) continue;
    const auto [other, free] = taken.emplace(*name == "-" ? *name : place_of(*name), option.name);
    if (!free && *name == "-")
      return wrong(option, "expected one output on standard output, found two; give one a file name");
    if (!free)
      return wrong(option, fmt::format("expected a file of its own, found that of {}", other->second));
    if (const Option* input = named_by(options, arguments, *name))
      return wrong(option,
                   fmt::format("expected another file than {}, which would be overwritten", input->name));
  }
  return {};
}

}  // namespace headroom::cli
