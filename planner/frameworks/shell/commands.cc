#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "planner/frameworks/shell/arithmetic.h"
#include "planner/frameworks/shell/interpreter.h"
#include "planner/frameworks/shell/machine.h"
#include "planner/frameworks/shell/outputs.h"

namespace headroom::shell {
namespace {

constexpr int kDeepestFile = 20;
constexpr int kFoldersAbove = 8;
constexpr std::size_t kMostLaunches = 200;

using Names = std::span<const std::string_view>;

bool is_one_of(std::string_view name, Names names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Builtins and programs that change nothing that is followed here.
constexpr auto kNothing = std::to_array<std::string_view>(
    {":",     "true", "trap",   "ulimit", "wait", "sleep",  "umask", "hash",  "alias",
     "shopt", "set",  "setopt", "mkdir",  "rm",   "cp",     "mv",    "touch", "chmod",
     "ln",    "kill", "pkill",  "clear",  "tee",  "module", "pip",   "pip3"});

/// `a.b.c=value`: a word of a command that was cut off by a comment or by a blank behind a backslash.
bool looks_cut_off(const Word& word) {
  const std::size_t equals = word.text.find('='), dot = word.text.find('.');
  return dot != std::string::npos && equals != std::string::npos && dot < equals && dot > 0 &&
         word.text.find_first_of(" /") > equals;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

}  // namespace

void Interpreter::print(const Word& word) {
  state_.output.append(word);
  spend(state_.output.text.size() > 65536 ? state_.output.text.size() : word.text.size(), word.place);
}

Ended Interpreter::command(std::vector<Word> words, const Node& node, const Word* input,
                           const std::map<std::string, Word>& prefix) {
  const Place& place = node.place;
  if (words.empty() || !step(place)) return {};
  const std::string& name = words.front().text;
  if (words.front().known()) {
    if (const auto function = state_.functions.find(name); function != state_.functions.end()) {
      const Program body = function->second;
      const Word* const outer = std::exchange(input_, input);
      const Ended ended = call(body, std::move(words));
      input_ = outer;
      return ended;
    }
    if (auto ended = control(words, node)) return *ended;
    if (auto ended = builtin(words, node, input)) return *ended;
  }
  if (looks_cut_off(words.front())) {
    remark(place, fmt::format("'{}' stands outside of the command above it: a comment, or a blank behind a "
                              "backslash, ends that command",
                              words.front().text.substr(0, 80)));
    return {Truth::no, false};
  }
  std::vector<Word> wrappers;
  std::map<std::string, Word> environment = prefix;
  words = unwrapped(std::move(words), wrappers, environment);
  if (words.empty()) return {Truth::yes, true};
  if (auto ended = shell(words, place)) return *ended;
  if (const auto answer = asks_machine(words)) return {*answer, false};
  if (printing_ == 0) start(words, place, environment, std::move(wrappers));
  if (listed_gpus(words, 1)) {
    print({.text = *listed_gpus(words, gpus_of_machine(words, place)), .unknown = {}, .place = place});
    return {Truth::yes, false};
  }
  if (auto output = output_of(words, input, place)) {
    print(*output);
    return {Truth::yes, false};
  }
  print(unknown_word("$(" + words.front().text.substr(0, 40) + " …)", "", "is a command's output", place));
  return {Truth::yes, true};
}

void Interpreter::start(std::vector<Word> words, const Place& place,
                        const std::map<std::string, Word>& prefix, std::vector<Word> wrappers) {
  std::optional<Launch> launch = recognise(std::move(words));
  if (!launch || reading_.launches.size() >= kMostLaunches) return;
  launch->place = place;
  launch->certain = unsure_ == 0;
  launch->wrapper_words = std::move(wrappers);
  launch->environment = prefix;
  for (const auto& [name, variable] : state_.variables)
    if (variable.exported && !variable.items.empty())
      launch->environment.emplace(name, variable.items.front().second);
  for (const auto& [name, text] : context_.environment)
    launch->environment.emplace(name, Word{.text = text, .unknown = {}, .place = {}});
  reading_.launches.push_back(std::move(*launch));
}

/// export, local, declare, typeset, readonly.
Ended Interpreter::declare(const std::vector<Word>& words, const Node& node) {
  const std::string& name = words[0].text;
  bool exported = name == "export", associative = false, array = false;
  for (const Word& word : words)
    if (word.text.starts_with('-')) {
      exported = exported || word.text.find('x') != std::string::npos;
      associative = associative || word.text.find('A') != std::string::npos;
      array = array || word.text.find('a') != std::string::npos;
    }
  const bool local = name == "local" || (name == "declare" && !state_.locals.empty());
  const auto prepare = [&](const std::string& variable) {
    if (local) make_local(variable);
    if (associative || array) {
      Variable& made = state_.variables[variable];
      made.array = true;
      made.associative = associative;
    }
    if (exported) state_.variables[variable].exported = true;
  };
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& text = words[i].text;
    if (text.starts_with('-')) continue;
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) {
      const auto known = exported && find(text) == nullptr ? value(text, "", node.place) : std::nullopt;
      prepare(text);
      if (known) set(text, *known, true);
      continue;
    }
    prepare(text.substr(0, equals));
    Word given = part_of(words[i], equals + 1, text.size());
    set(text.substr(0, equals), std::move(given), exported);
  }
  for (const Assignment& one : node.assignments) {
    Assignment evaluated = one;
    if (!one.array && local) {  // the value may ask for an outer variable of that name
      const Word given = joined(one.value);
      prepare(one.name);
      set(one.name, given, exported);
      continue;
    }
    prepare(one.name);
    assign(evaluated, exported);
  }
  return {};
}

std::optional<Ended> Interpreter::control(const std::vector<Word>& words, const Node& node) {
  const std::string& name = words[0].text;
  if (name == "false") return Ended{Truth::no, false};
  if (name == "break" || name == "continue") {
    flow_ = name == "break" ? Flow::leave : Flow::next;
    levels_ =
        words.size() > 1
            ? static_cast<int>(std::clamp<std::int64_t>(shell_integer(words[1].text).value_or(1), 1, 100))
            : 1;
    return Ended{};
  }
  if (name == "return" || name == "exit") {
    flow_ = name == "return" ? Flow::back : Flow::exit;
    const bool failed = words.size() > 1 && words[1].known() && words[1].text != "0";
    if (name == "exit" && failed && reading_.launches.empty()) {
      gave_up_ = gave_up_ || unsure_ == 0;
      std::string printed = state_.output.text;
      while (!printed.empty() && printed.back() == '\n') printed.pop_back();
      printed = printed.substr(printed.rfind('\n') + 1);
      remark(node.place, "the script ends here" + (printed.empty() ? "" : ", having printed '" + printed + "'") +
                             "; --env NAME=VALUE sets a variable that it asks for");
    }
    return Ended{words.size() > 1 && !words[1].known() ? Truth::unknown : as_truth(!failed), false};
  }
  if (name == "[" || name == "test") {
    std::vector<Word> rest(words.begin() + 1, words.end());
    if (name == "[" && !rest.empty() && rest.back().text == "]") rest.pop_back();
    return Ended{test(std::move(rest), node.place), false};
  }
  if (name == "let") {
    std::optional<std::int64_t> last = 0;
    for (std::size_t i = 1; i < words.size(); ++i) last = number(words[i], node.place, nullptr);
    return Ended{last ? as_truth(*last != 0) : Truth::unknown, false};
  }
  if (name == "eval") {
    std::string text;
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (!words[i].known()) return Ended{Truth::unknown, true};
      text += (i > 1 ? " " : "") + words[i].text;
    }
    return this->text(text, node.place);
  }
  if (name == "source" || name == ".") return source(words, node.place);
  if (name == "getopts") return Ended{state_.positional.empty() ? Truth::no : Truth::unknown, false};
  return std::nullopt;
}

/// Text that is followed as if it stood here.
Ended Interpreter::text(const std::string& text, const Place& place) {
  if (depth_ > 300) {
    fail_at(place, "expected at most 100 levels of nesting");
    return {};
  }
  const Result<Program> program = parse_script(text, place.file, std::max(place.line, 1));
  if (!program) {
    remark(place, "can't be followed: " + program.error().message);
    return {Truth::unknown, true};
  }
  return node(**program);
}

std::optional<Ended> Interpreter::builtin(const std::vector<Word>& words, const Node& node,
                                          const Word* input) {
  const std::string& name = words[0].text;
  if (name == "set") {
    for (std::size_t i = 1; i < words.size(); ++i)
      if (words[i].text == "--") {
        state_.positional.assign(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
        break;
      }
    return Ended{};
  }
  if (name == "shift") {
    const auto count = words.size() > 1 ? shell_integer(words[1].text).value_or(1) : 1;
    if (count < 0 || count > static_cast<std::int64_t>(state_.positional.size()))
      return Ended{Truth::no, false};
    state_.positional.erase(state_.positional.begin(), state_.positional.begin() + count);
    return Ended{};
  }
  if (name == "unset") {
    for (std::size_t i = 1; i < words.size(); ++i) {
      state_.variables.erase(words[i].text);
      if (words[1].text == "-f") state_.functions.erase(words[i].text);
    }
    return Ended{};
  }
  if (name == "cd" || name == "pushd") {
    std::size_t at = 1;
    while (at < words.size() && (words[at].text == "--" || words[at].text == "-P" || words[at].text == "-L"))
      ++at;
    if (at < words.size()) state_.directory = joined_path(state_.directory, words[at].text);
    return Ended{};
  }
  if (name == "popd") return Ended{};
  if (name == "read" || name == "mapfile" || name == "readarray")
    return read_variables(words, input, node.place);
  if (name == "printf" && words.size() > 2 && words[1].text == "-v") {
    std::vector<Word> rest{words[0]};
    rest.insert(rest.end(), words.begin() + 3, words.end());
    const auto printed = output_of(rest, input, node.place);
    set(words[2].text,
        printed ? *printed : unknown_word("$" + words[2].text, words[2].text, "is printed", node.place));
    return Ended{};
  }
  if ((name == "builtin" || name == "command") && words.size() > 1 && !words[1].text.starts_with('-')) {
    return command({words.begin() + 1, words.end()}, node, input, {});
  }
  if (name == "command" || name == "type" || name == "which") {
    const Truth there = words.back().known() ? has_program(words.back().text) : Truth::unknown;
    if (there == Truth::no) return Ended{Truth::no, false};
    print(unknown_word("$(" + name + " …)", "", "is known where it runs", node.place));
    return Ended{there, there == Truth::unknown};
  }
  if (is_one_of(name, kNothing)) {
    if (name == "tee" && input != nullptr) print(*input);
    return Ended{Truth::yes, name != ":" && name != "true"};
  }
  return std::nullopt;
}

Ended Interpreter::read_variables(const std::vector<Word>& words, const Word* input, const Place& place) {
  std::vector<std::string> names;
  bool array = words[0].text != "read";
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& text = words[i].text;
    if (text.starts_with('-')) {
      array = array || text.find('a') != std::string::npos;
      if (text.size() == 2 && std::string_view("dnNtpu").find(text[1]) != std::string_view::npos) ++i;
      continue;
    }
    names.push_back(text);
  }
  const bool known = input != nullptr && input->known() && !array && names.size() == 1 &&
                     input->text.find('\n', 0) + 1 >= input->text.size();
  for (const std::string& name : names) {
    Word read = known ? *input : unknown_word("$" + name, name, "is read when it runs", place);
    if (known)
      while (!read.text.empty() && read.text.back() == '\n') read.text.pop_back();
    set(name, std::move(read));
  }
  return {input == nullptr || !input->known() ? Truth::unknown : Truth::yes, true};
}

/// Where a file that a script names is looked for: here, where the script has gone, beside it, and in the folders
/// above it, from one of which scripts are meant to be started (`bash scripts/run.sh`).
std::vector<std::string> Interpreter::places_of(const std::string& script) const {
  std::vector<std::string> out{std::string(), state_.directory};
  std::string folder = folder_of(joined_path(context_.directory, script));
  for (int i = 0; i < kFoldersAbove && !folder.empty(); ++i, folder = folder_of(folder)) out.push_back(folder);
  return out;
}

Ended Interpreter::source(const std::vector<Word>& words, const Place& place) {
  if (words.size() < 2) return {};
  const Word& path = words[1];
  std::optional<std::string> found;
  std::string at = path.text;
  if (path.known() && context_.file) {
    for (const std::string& base : places_of(script_)) {
      at = base.empty() ? path.text : joined_path(base, path.text);
      if ((found = context_.file(at))) break;
    }
  }
  if (!found) {
    remark(place, fmt::format("{} {} can't be read, so what it sets is not known (--env NAME=VALUE gives it)",
                              words[0].text, path.text.substr(0, 120)));
    return {Truth::yes, true};
  }
  if (state_.locals.size() >= kDeepestFile) {
    fail_at(place, "expected at most 20 levels of sourced files");
    return {};
  }
  const Result<Program> program = parse_script(*found, at);
  if (!program) {
    remark(place, "can't be followed: " + program.error().text());
    return {Truth::yes, true};
  }
  std::vector<Word> positional = state_.positional;
  if (words.size() > 2) state_.positional.assign(words.begin() + 2, words.end());
  state_.locals.emplace_back();  // only counted: what a sourced file sets stays
  const std::size_t frames = state_.locals.size();
  Ended ended = node(**program);
  if (flow_ == Flow::back) flow_ = Flow::none;
  if (state_.locals.size() == frames) state_.locals.pop_back();
  if (words.size() > 2) state_.positional = std::move(positional);
  return ended;
}

/// `bash train.sh A B`, `sh -c '…'`, `./train.sh`: followed, in an environment of its own.
std::optional<Ended> Interpreter::shell(const std::vector<Word>& words, const Place& place) {
  const std::string program = words[0].text.substr(words[0].text.rfind('/') + 1);
  const bool is_shell = program == "bash" || program == "sh" || program == "zsh";
  std::size_t at = 0;
  bool text_follows = false;
  if (is_shell) {
    for (at = 1; at < words.size() && words[at].text.starts_with('-') && words[at].text != "--"; ++at) {
      text_follows = words[at].text.find('c') != std::string::npos && !words[at].text.starts_with("--");
      if (words[at].text == "-o") ++at;
      if (text_follows) {
        ++at;
        break;
      }
    }
    if (at >= words.size()) return Ended{Truth::yes, true};
  } else if (!program.ends_with(".sh")) {
    return std::nullopt;
  }
  if (!words[at].known() && !text_follows) return Ended{Truth::yes, true};
  State before = state_;
  const std::string script = script_;
  std::vector<Word> rest(words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end());
  for (auto variable = state_.variables.begin(); variable != state_.variables.end();)
    variable = variable->second.exported ? std::next(variable) : state_.variables.erase(variable);
  state_.functions.clear();
  Ended ended{Truth::yes, true};
  if (text_follows) {
    if (!rest.empty()) rest.erase(rest.begin());  // $0
    state_.positional = std::move(rest);
    ended = text(words[at].text, words[at].place.line > 0 ? words[at].place : place);
  } else {
    std::vector<Word> sourced{words[at], words[at]};
    state_.positional = std::move(rest);
    if (context_.file) script_ = words[at].text;
    ended = source(sourced, place);
  }
  script_ = script;
  Word output = std::move(state_.output);
  state_ = std::move(before);
  state_.output = std::move(output);
  if (flow_ == Flow::exit || flow_ == Flow::back) flow_ = Flow::none;
  return Ended{ended.success, true};
}

std::int64_t Interpreter::gpus_of_machine(const std::vector<Word>& words, const Place& place) {
  const std::int64_t there = context_.gpus.value_or(kUsualGpus);
  if (!context_.gpus && !counts_gpus_) counts_gpus_ = place;
  if (words[0].text.ends_with("nvidia-smi")) return there;  // it lists cards that a program may not see
  const auto visible = value("CUDA_VISIBLE_DEVICES", "", place);
  if (!visible || !visible->known() || visible->text.empty()) return there;
  return 1 + std::count(visible->text.begin(), visible->text.end(), ',');
}

std::optional<Word> Interpreter::output_of(const std::vector<Word>& words, const Word* input,
                                           const Place& place) {
  const std::string name = words[0].text.substr(words[0].text.rfind('/') + 1);
  if (name == "pwd") return Word{.text = state_.directory + "\n", .unknown = {}, .place = place};
  return known_output(name, words, input, state_.directory, place);
}

}  // namespace headroom::shell
