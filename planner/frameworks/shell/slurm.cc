#include "planner/frameworks/shell/slurm.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace headroom::shell {
namespace {

using Variables = std::map<std::string, std::string>;

constexpr std::string_view kMark = "#SBATCH", kBlanks = " \t\r";

/// An option of sbatch and the variables that repeat its value.
struct Option {
  std::string_view name, letter;
  std::vector<std::string> variables;
};

const std::vector<Option>& options() {
  static const std::vector<Option> all{
      {"--nodes", "-N", {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"}},
      {"--ntasks-per-node", "", {"SLURM_NTASKS_PER_NODE"}},
      {"--ntasks", "-n", {"SLURM_NTASKS", "SLURM_NPROCS"}},
      {"--cpus-per-task", "-c", {"SLURM_CPUS_PER_TASK"}},
      {"--gpus-per-node", "", {"SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"}},
      {"--gres", "", {"SLURM_GPUS_ON_NODE"}},
      {"--job-name", "-J", {"SLURM_JOB_NAME"}},
  };
  return all;
}

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// GPUs in `8`, `h100:8`, `gpu:8`, `gpu:h100:8`, `gpu`; empty: none.
std::string gpus_in(std::string_view value, bool of_any_kind) {
  if (of_any_kind) {
    if (!value.starts_with("gpu")) return {};
    if (value == "gpu") return "1";
  }
  const std::string_view last = value.substr(value.rfind(':') == std::string_view::npos ? 0 : value.rfind(':') + 1);
  return is_number(last) ? std::string(last) : std::string();
}

void take(const Option& option, std::string_view value, Variables& out) {
  std::string text(value);
  if (option.name.starts_with("--g")) text = gpus_in(value, option.name == "--gres");
  if (text.empty() || (option.name != "--job-name" && !is_number(text))) return;
  for (const std::string& name : option.variables) out.emplace(name, text);
}

/// The words of a line, up to a comment.
std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> out;
  while (true) {
    const std::size_t begin = line.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return out;
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(kBlanks), line.size());
    if (line.front() == '#') return out;
    out.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

void take_line(const std::vector<std::string_view>& words, Variables& out) {
  for (std::size_t i = 0; i < words.size(); ++i)
    for (const Option& option : options()) {
      const std::string_view word = words[i];
      const bool alone = word == option.name || word == option.letter;
      if (alone && i + 1 < words.size()) take(option, words[i + 1], out);
      if (word.starts_with(option.name) && word.size() > option.name.size() && word[option.name.size()] == '=')
        take(option, word.substr(option.name.size() + 1), out);
    }
}

}  // namespace

std::map<std::string, std::string> slurm_variables(std::string_view script) {
  Variables out;
  while (!script.empty()) {
    const std::size_t end = std::min(script.find('\n'), script.size());
    std::string_view line = script.substr(0, end);
    script.remove_prefix(std::min(end + 1, script.size()));
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
    if (line.starts_with(kMark)) {
      take_line(words_of(line.substr(kMark.size())), out);
    } else if (!line.empty() && line.front() != '#') {
      break;
    }
  }
  return out;
}

}  // namespace headroom::shell
