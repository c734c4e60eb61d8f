#include "planner/frameworks/shell/runner_count.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "models/document/document.h"

namespace headroom::shell {
namespace {

constexpr std::int64_t kMost = 65536;
constexpr std::array<std::string_view, 3> kCountedThere = {"gpu", "auto", "cpu"};

}  // namespace

Result<std::optional<std::int64_t>> runner_count(const Launch& launch, std::initializer_list<std::string_view> names) {
  const Word* word = launch.runner_option(names);
  if (word == nullptr) return std::optional<std::int64_t>();
  if (word->known() && std::find(kCountedThere.begin(), kCountedThere.end(), word->text) != kCountedThere.end())
    return std::optional<std::int64_t>();
  const std::string most = word->text.substr(word->text.find(':') + 1);
  const std::optional<std::int64_t> count = word->known() ? Document::scalar(most).as_int() : std::nullopt;
  if (count && *count >= 1 && *count <= kMost) return count;
  return fail(Error{.message = fmt::format("expected a whole number from 1 to {}, found {}", kMost,
                                           word->known() ? word->text : what_is_missing(*word)),
                    .file = word->place.file,
                    .line = word->place.line,
                    .key = std::string(*names.begin())});
}

}  // namespace headroom::shell
