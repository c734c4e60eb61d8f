#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "planner/frameworks/read_job.h"

namespace headroom {

/// What is said of a file that a run uses and that is none itself.
inline constexpr std::string_view kTrainsNothing = "which trains nothing by itself";

/// What is said of a Python program that imports a framework and is none of its own.
inline constexpr std::string_view kOwnProgram =
    "a program of the user's own (its settings stand in Python, which is never run: give them as flags or a "
    "configuration of one of the framework's programs)";

/// A framework's own form that is told apart but not read yet.
struct Recognised {
  std::string framework;  ///< as users call it
  std::string form;       ///< what was given: "its command line", "an accelerate configuration" …
  std::string file;
  int line = 0;
};

/// Whose package a Python program imports. Looks at its lines, runs nothing.
std::optional<Recognised> recognise_program(std::string_view text, const std::string& file);

/// Whose files or command these are, where no reader takes them. Looks at keys and flags that no other
/// framework has. Nothing: unknown.
std::optional<Recognised> recognise(const JobInput& input);

}  // namespace headroom
