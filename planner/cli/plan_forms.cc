#include "planner/cli/plan_forms.h"

#include <fmt/format.h>

#include <algorithm>

namespace headroom::cli {

Status expect_forms(const Arguments& arguments, const Run& run) {
  const auto& files = run.read.input.files;
  const bool launched =
      std::any_of(files.begin(), files.end(), [](const JobInput::File& file) { return file.launch != nullptr; });
  for (const Form& form : kForms) {
    if (!arguments.find(form.flag)) continue;
    if (run.framework->*form.write == nullptr)
      return fail(Error{.message = fmt::format("runs of {} can't be written in this form", run.framework->name),
                        .file = {},
                        .key = form.flag});
    if (form.write == &Framework::write_script && !launched)
      return fail(Error{.message = "expected a launch script or a command as CONFIG, found a configuration; --yaml writes that",
                        .file = {},
                        .key = form.flag});
  }
  return {};
}

}  // namespace headroom::cli
