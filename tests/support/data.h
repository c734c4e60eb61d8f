#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace headroom::test {

/// The file `name` under tests/data of the source tree.
std::filesystem::path data(const std::string& name);

/// The file `name` under the root of the source tree.
std::filesystem::path source(const std::string& name);

/// An empty folder of this process, for what a test writes; gone when the process ends. Tests run side by
/// side.
std::filesystem::path scratch();

/// A larger collection of recordings, laid out as its README says, named by the environment variable
/// HEADROOM_TRUTH; empty when unset. Tests over it are extra: tests/data suffices.
std::optional<std::filesystem::path> truth();

}  // namespace headroom::test
