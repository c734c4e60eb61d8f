#include "planner/frameworks/shell/launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "planner/frameworks/shell/interpreter.h"

namespace headroom::shell {
namespace {

using Names = std::span<const std::string_view>;

bool is_one_of(std::string_view name, Names names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string_view last_part(std::string_view path) {
  return path.substr(path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/') + 1);
}

bool is_python(std::string_view word) {
  word = last_part(word);
  if (word == "pypy3") return true;
  if (!word.starts_with("python")) return false;
  return word.find_first_not_of("0123456789.", 6) == std::string_view::npos;
}

constexpr auto kStarters = std::to_array<std::string_view>({"torchrun", "deepspeed", "accelerate", "colossalai"});
// Those whose word for it comes before their options.
constexpr std::pair<std::string_view, std::string_view> kSubcommands[] = {{"accelerate", "launch"}, {"colossalai", "run"}};
// Programs of their own that start training.
constexpr auto kPrograms =
    std::to_array<std::string_view>({"trl", "openrlhf", "swift", "llamafactory-cli", "nemo"});
// In front of a command; with options of their own.
constexpr auto kWrappers = std::to_array<std::string_view>(
    {"nohup",   "exec",         "time",        "sudo",     "stdbuf",     "nice",    "ionice",
     "numactl", "timeout",      "env",         "srun",     "mpirun",     "mpiexec", "uv",
     "poetry",  "pdm",          "pixi",        "conda",    "micromamba", "ray",     "docker",
     "podman",  "apptainer",    "singularity", "xvfb-run", "setsid",     "nsys",    "ncu",
     "py-spy",  "proxychains4", "chrt",        "taskset",  "unbuffer",   "script",  "caffeinate"});

bool runs_python(const Word& word) {
  const std::string_view name = last_part(word.text);
  return is_python(name) || is_one_of(name, kStarters) || is_one_of(name, kPrograms);
}

bool runs_something(const Word& word) {
  const std::string_view name = last_part(word.text);
  return runs_python(word) || name == "bash" || name == "sh" || name.ends_with(".sh") ||
         name.ends_with(".py") || is_one_of(name, kWrappers);
}

/// Options of the runners that take no value.
constexpr auto kSwitches = std::to_array<std::string_view>({"--standalone",
                                                            "--no-python",
                                                            "--no_python",
                                                            "--run-path",
                                                            "--run_path",
                                                            "--no_ssh_check",
                                                            "--no_local_rank",
                                                            "--multi_gpu",
                                                            "--use_deepspeed",
                                                            "--use_fsdp",
                                                            "--use_megatron_lm",
                                                            "--cpu",
                                                            "--tpu",
                                                            "--quiet",
                                                            "--debug",
                                                            "--use_xpu",
                                                            "--same_network",
                                                            "--force_multi",
                                                            "--enable_each_rank_log",
                                                            "--save_pid",
                                                            "--bind_cores_to_rank",
                                                            "--no_ssh",
                                                            "-q"});

void keep(std::vector<Word>& into, std::vector<Word>& from, std::size_t count) {
  count = std::min(count, from.size());
  into.insert(into.end(), std::make_move_iterator(from.begin()),
              std::make_move_iterator(from.begin() + static_cast<std::ptrdiff_t>(count)));
  from.erase(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(count));
}

/// `[-u] [-X …] -m MODULE | FILE`; false when nothing is started (`-c`, a here-document).
bool python(Launch& launch, std::vector<Word>& words) {
  std::size_t at = 0;
  while (at < words.size() && words[at].text.starts_with('-') && words[at].text != "-") {
    const std::string& option = words[at].text;
    if (option == "-m") {
      if (at + 1 >= words.size()) return false;
      keep(launch.runner_words, words, at + 1);
      launch.module = true;
      break;
    }
    if (option.starts_with("-c")) return false;
    at += option == "-X" || option == "-W" ? 2 : 1;
  }
  if (!launch.module) keep(launch.runner_words, words, at);
  if (words.empty() || words.front().text == "-") return false;
  launch.program = words.front().text;
  keep(launch.runner_words, words, 1);
  return true;
}

/// Options, then a file or `-m MODULE`.
bool starter(Launch& launch, std::vector<Word>& words) {
  std::size_t at = 0;
  while (at < words.size() && words[at].text.starts_with('-')) {
    const std::string& option = words[at].text;
    if (option == "-m" || option == "--module") {
      launch.module = true;
      ++at;
      continue;
    }
    const bool alone = option.find('=') != std::string::npos || is_one_of(option, kSwitches);
    at += alone ? 1 : 2;
  }
  keep(launch.runner_words, words, at);
  if (words.empty()) return false;
  launch.program = words.front().text;
  keep(launch.runner_words, words, 1);
  return true;
}

struct Inner {
  std::string_view module, runner;
};
constexpr auto kInner = std::to_array<Inner>({{"torch.distributed.run", "torchrun"},
                                              {"torch.distributed.launch", "torchrun"},
                                              {"accelerate.commands.launch", "accelerate"},
                                              {"deepspeed.launcher.runner", "deepspeed"}});

constexpr auto kScriptEnds = std::to_array<std::string_view>({".sh", ".bash", ".zsh", ".slurm", ".sbatch"});

/// The length of NAME in NAME=…; 0 when it is none.
std::size_t assigned_name(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos || equals == 0 ||
      std::isdigit(static_cast<unsigned char>(word[0])) != 0)
    return 0;
  const bool name = std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals),
                                [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  return name ? equals : 0;
}

bool starts_a_command(std::string_view line) {
  // Assignments in front of a command: A=1 B=2 python3 …
  while (true) {
    const std::size_t end = std::min(line.find_first_of(" \t\r\\"), line.size());
    const std::string_view word = line.substr(0, end);
    if (assigned_name(word) == 0) {
      const Word first{.text = std::string(word), .unknown = {}, .place = {}};
      if (is_python(word) || is_one_of(last_part(word), kStarters)) return true;
      const bool more = line.size() > end;
      return more &&
             (runs_python(first) || is_one_of(last_part(word), kWrappers) || last_part(word) == "bash") &&
             line.find(": ") == std::string_view::npos;
    }
    if (end == line.size()) return false;
    line.remove_prefix(std::min(line.find_first_not_of(" \t\\", end), line.size()));
  }
}

}  // namespace

const Word* Launch::runner_option(std::initializer_list<std::string_view> names) const {
  for (std::size_t i = 0; i < runner_words.size(); ++i)
    for (const std::string_view name : names)
      if (runner_words[i].text == name && i + 1 < runner_words.size()) return &runner_words[i + 1];
  return nullptr;
}

std::vector<Word> unwrapped(std::vector<Word> words, std::vector<Word>& wrappers,
                            std::map<std::string, Word>& environment) {
  for (int depth = 0; depth < 10 && !words.empty(); ++depth) {
    const std::string name(last_part(words[0].text));
    if (!is_one_of(name, kWrappers)) break;
    std::size_t at = 1;
    if (name == "ray") {
      if (words.size() < 2 || words[1].text != "job") return words;  // ray start, ray stop
      while (at < words.size() && words[at].text != "--") ++at;
      if (at < words.size()) ++at;
    } else if (name == "env") {
      while (at < words.size() && !runs_something(words[at])) {
        const std::size_t equals = words[at].text.find('=');
        if (equals != std::string::npos && !words[at].text.starts_with('-'))
          environment[words[at].text.substr(0, equals)] =
              part_of(words[at], equals + 1, words[at].text.size());
        ++at;
      }
    } else {
      // Their options come first; what they start is known by its name.
      while (at < words.size() && !runs_something(words[at])) ++at;
    }
    if (at >= words.size() && name != "ray") return words;
    keep(wrappers, words, at);
    // Behind `--` variables may stand in front of the command.
    for (std::size_t equals = 0; !words.empty() && (equals = assigned_name(words[0].text)) > 0;) {
      environment[words[0].text.substr(0, equals)] = part_of(words[0], equals + 1, words[0].text.size());
      keep(wrappers, words, 1);
    }
  }
  return words;
}

std::optional<Launch> recognise(std::vector<Word> words) {
  if (words.empty()) return std::nullopt;
  Launch launch;
  const std::string name(last_part(words[0].text));
  bool found = false;
  if (is_python(name)) {
    launch.runner = "python";
    keep(launch.runner_words, words, 1);
    found = python(launch, words);
    for (const Inner& inner : kInner) {
      if (!found || !launch.module || launch.program != inner.module) continue;
      launch.runner = inner.runner;
      launch.module = false;
      found = starter(launch, words);
    }
  } else if (is_one_of(name, kStarters)) {
    launch.runner = name;
    keep(launch.runner_words, words, 1);
    for (const auto& [runner, subcommand] : kSubcommands) {
      if (name != runner) continue;
      if (words.empty() || words[0].text != subcommand) return std::nullopt;
      keep(launch.runner_words, words, 1);
    }
    found = starter(launch, words);
  } else if (is_one_of(name, kPrograms) || name.ends_with(".py")) {
    launch.runner = name.ends_with(".py") ? "python" : name;
    launch.program = words[0].text;
    keep(launch.runner_words, words, 1);
    found = true;
  }
  if (!found) return std::nullopt;
  // `--flag=value` as two words, so that options are found in one way.
  std::vector<Word> split;
  for (Word& word : launch.runner_words) {
    const std::size_t equals = word.text.find('=');
    if (!word.text.starts_with("--") || equals == std::string::npos) {
      split.push_back(std::move(word));
      continue;
    }
    split.push_back(part_of(word, 0, equals));
    split.push_back(part_of(word, equals + 1, word.text.size()));
  }
  launch.runner_words = std::move(split);
  launch.words = std::move(words);
  return launch;
}

Result<Reading> read_script(std::string_view text, const std::string& file, const Context& context) {
  HEADROOM_ASSIGN(const Program program, parse_script(text, file));
  Interpreter interpreter(context);
  HEADROOM_TRY(interpreter.run(program, file, text));
  std::set<std::string> asked = interpreter.missing();
  Reading reading = interpreter.take();
  // It asks for variables, which whoever starts it sets, one after the other: what they stand for may not matter here.
  for (std::size_t before = 0; asked.size() > before;) {
    before = asked.size();
    Interpreter again(context, asked);
    HEADROOM_TRY(again.run(program, file, text));
    asked.merge(again.missing());
    Reading other = again.take();
    if (other.launches.empty()) continue;
    const std::string named = fmt::format("{}", fmt::join(asked, ", "));
    other.remarks.insert(
        other.remarks.begin(),
        Remark{.file = file,
               .line = 1,
               .message = fmt::format("it stops where {} is not set; read as if it were (--env NAME=VALUE)", named)});
    return other;
  }
  return reading;
}

Result<Reading> read_command(std::span<const std::string> words, const Context& context) {
  std::vector<Word> command;
  for (const std::string& word : words)
    command.push_back({.text = word, .unknown = {}, .place = {"command line", 0, 0, 0}});
  // A=1 B=2 in front: the shell took none, so they were quoted or came by copying.
  Context with = context;
  for (std::size_t equals = 0; !command.empty() && (equals = assigned_name(command.front().text)) > 0;) {
    const std::string& text = command.front().text;
    with.environment.emplace(text.substr(0, equals), text.substr(equals + 1));
    command.erase(command.begin());
  }
  Interpreter interpreter(with);
  HEADROOM_TRY(interpreter.run_words(std::move(command)));
  return interpreter.take();
}

bool looks_like_script(std::string_view text, std::string_view path) {
  for (const std::string_view end : kScriptEnds)
    if (path.ends_with(end)) return true;
  if (text.starts_with("#!")) return true;
  for (int lines = 0; !text.empty() && lines < 2000; ++lines) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line.remove_prefix(std::min(line.find_first_not_of(" \t$"), line.size()));
    if (line.empty() || line.front() == '#') continue;
    if (starts_a_command(line)) return true;
  }
  return false;
}

}  // namespace headroom::shell
