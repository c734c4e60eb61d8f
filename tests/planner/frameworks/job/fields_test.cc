#include "planner/frameworks/job/fields.h"

#include <gmock/gmock.h>

#include <memory>
#include <optional>
#include <type_traits>

#include "tests/support/effect.h"

/// Every field that the job file's schema has changes a report, refuses the job or is told as in vain.

namespace headroom {
namespace {

template <typename T>
struct ItemOf {
  using type = T;
};
template <typename T>
struct ItemOf<std::vector<T>> : ItemOf<T> {};
template <typename T>
struct ItemOf<std::optional<T>> : ItemOf<T> {};

/// Collects the paths of all fields; items of lists have no place in them.
struct Paths {
  std::set<std::string> found;
  std::string at;

  template <typename Struct, typename T>
  void field(const jobfile::Info& info, T Struct::*) {
    using Item = typename ItemOf<T>::type;
    const std::string path = at + std::string(info.name);
    if constexpr (requires(Paths & v) { jobfile::Fields<Item>::visit(v); }) {
      Paths below{.found = {}, .at = path + "."};
      jobfile::Fields<Item>::visit(below);
      found.merge(below.found);
    } else {
      found.insert(path);
    }
  }
  template <typename Struct>
  void model(const jobfile::Info& info, std::string Struct::*, std::shared_ptr<const Architecture> Struct::*) {
    found.insert(at + std::string(info.name));
  }
  template <typename Struct>
  void parts(const jobfile::Info& info, unsigned Struct::*) {
    found.insert(at + std::string(info.name));
  }
};

TEST(JobFields, Matter) {
  Paths paths;
  jobfile::Fields<Job>::visit(paths);
  // Phases are alike before the first step.
  std::erase_if(paths.found, [](const std::string& path) { return path.starts_with("start."); });
  test::expect_every_key_matters("job", paths.found);
}

}  // namespace
}  // namespace headroom
