#include "planner/frameworks/verl/release_hints.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <filesystem>

#include "planner/frameworks/verl/lay.h"
#include "planner/frameworks/verl/version.h"

namespace headroom::verl {
namespace {

namespace fs = std::filesystem;

constexpr int kMostAncestors = 10, kRequirementAncestors = 3;
constexpr std::size_t kLargest = 256 << 10;
constexpr auto kRequirements = std::to_array<const char*>(
    {"requirements.txt", "requirements-cuda.txt", "requirements_sglang.txt", "pyproject.toml", "setup.py",
     "environment.yml", "environment.yaml", "Dockerfile", "install.sh"});

std::string small_file(const fs::path& path) {
  std::error_code code;
  if (!fs::is_regular_file(path, code)) return {};
  Result<std::string> text = read_text(path.string(), kLargest);
  return text ? std::move(*text) : std::string();
}

/// The version number at the start of `text`: digits and dots, at least one dot.
std::string number_at(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && (std::isdigit(static_cast<unsigned char>(text[end])) != 0 || text[end] == '.'))
    ++end;
  while (end > 0 && text[end - 1] == '.') --end;
  const std::string out(text.substr(0, end));
  return out.find('.') == std::string::npos || !parse_version(out) ? std::string() : out;
}

/// What follows the first `mark` that a number follows; the mark must not be the end of a longer word.
std::string number_after(std::string_view text, std::string_view mark) {
  for (std::size_t at = text.find(mark); at != std::string_view::npos; at = text.find(mark, at + 1)) {
    if (at > 0 && (std::isalnum(static_cast<unsigned char>(text[at - 1])) != 0 || text[at - 1] == '_'))
      continue;
    const std::string number = number_at(text.substr(at + mark.size()));
    if (!number.empty()) return number;
  }
  return {};
}

std::string first_of(std::string_view text, std::initializer_list<std::string_view> marks) {
  for (const std::string_view mark : marks)
    if (std::string number = number_after(text, mark); !number.empty()) return number;
  return {};
}

/// The version file of the checkout around `folder`; nothing: there is none.
ReleaseHints checkout_around(fs::path folder) {
  for (int i = 0; i < kMostAncestors; ++i, folder = folder.parent_path()) {
    for (const char* place : {"verl/version/version", "version/version"}) {
      const std::string text = small_file(folder / place);
      const std::string version = text.substr(0, text.find_first_of(" \r\n"));
      if (version.empty() || !parse_version(version)) continue;
      return {.verl = version, .vllm = {}, .because = fmt::format("{} says so", (folder / place).string())};
    }
    if (folder == folder.parent_path()) break;
  }
  return {};
}

}  // namespace

ReleaseHints named_releases(std::string_view text) {
  ReleaseHints out;
  out.verl =
      first_of(text, {"verl==", "verl == ", "verl[vllm]==", "verl[sglang]==", "verl[gpu]==", "verl.git@v",
                      "verl@v", "app-verl", "verl-v"});
  out.vllm = first_of(text, {"vllm==", "vllm == "});
  // Images join their parts with dashes: verlai/verl:app-verl0.5-…-vllm0.10.0-…
  const std::size_t image = text.find("verl:");
  if (out.vllm.empty() && image != std::string_view::npos) {
    const std::string_view tag = text.substr(image, text.find_first_of(" \n\"'", image) - image);
    for (std::size_t at = tag.find("vllm"); at != std::string_view::npos && out.vllm.empty();
         at = tag.find("vllm", at + 1))
      out.vllm = number_at(tag.substr(at + 4));
  }
  return out;
}

ReleaseHints release_hints(const JobInput& input, const std::string& own) {
  ReleaseHints out;
  if (input.files.empty()) return out;
  if (!own.empty()) out = checkout_around(fs::path(own).parent_path());
  if (!out.verl.empty()) return out;
  const JobInput::File& first = input.files.front();
  std::error_code code;
  const fs::path folder =
      fs::absolute(first.path == "command line" || first.path == "--" || first.path == "standard input"
                       ? fs::path("verl.sh")
                       : fs::path(first.path),
                   code)
          .parent_path();
  out = checkout_around(folder);
  if (!out.verl.empty()) return out;
  if (first.launch != nullptr || is_list_of_overrides(first)) {
    out = named_releases(first.text);
    out.because = first.path + " names it";
    if (!out.verl.empty() || !out.vllm.empty()) return out;
  }
  fs::path at = folder;
  for (int i = 0; i <= kRequirementAncestors; ++i, at = at.parent_path()) {
    for (const char* name : kRequirements) {
      out = named_releases(small_file(at / name));
      out.because = fmt::format("{} names it", (at / name).string());
      if (!out.verl.empty() || !out.vllm.empty()) return out;
    }
    if (at == at.parent_path() || at == fs::path("/tmp")) break;
  }
  return {};
}

}  // namespace headroom::verl
