#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "planner/frameworks/shell/arithmetic.h"
#include "planner/frameworks/shell/interpreter.h"
#include "models/base/pattern.h"

namespace headroom::shell {
namespace {

constexpr std::size_t kMostFields = 100'000;

bool blank(char c) {
  return c == ' ' || c == '\t' || c == '\n';
}

/// A word while its fields are cut.
struct Fields {
  std::vector<Word> out;
  Word current;
  bool open = false;
  Place place;

  void close() {
    if (open) {
      current.place = current.place.line > 0 || !current.place.file.empty() ? current.place : place;
      out.push_back(std::move(current));
    }
    current = {};
    open = false;
  }
  void add(const Word& word) {
    current.append(word);
    open = true;
  }
  /// Cuts at blanks outside unknown stretches.
  void split(const Word& word) {
    std::size_t start = 0;
    const auto inside = [&](std::size_t at) {
      return std::any_of(word.unknown.begin(), word.unknown.end(),
                         [&](const Unknown& u) { return u.at <= at && at < u.at + u.size; });
    };
    for (std::size_t i = 0; i <= word.text.size(); ++i) {
      const bool end = i == word.text.size();
      if (!end && (!blank(word.text[i]) || inside(i))) continue;
      if (i > start || (end && !word.unknown.empty() && word.text.empty())) add(part_of(word, start, i));
      start = i + 1;
      if (!end) close();
    }
  }
};

/// `pre{a,b}post` and `{1..4}` of unquoted text; the text itself when there is nothing to expand.
std::vector<std::string> braces(const std::string& text, int depth = 0) {
  const std::size_t open = text.find('{');
  if (open == std::string::npos || depth > 8) return {text};
  int level = 0;
  std::vector<std::size_t> commas;
  std::size_t close = std::string::npos;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == '{') ++level;
    if (text[i] == ',' && level == 1) commas.push_back(i);
    if (text[i] == '}' && --level == 0) {
      close = i;
      break;
    }
  }
  if (close == std::string::npos) return {text};
  std::vector<std::string> choices;
  const std::string inner = text.substr(open + 1, close - open - 1);
  if (!commas.empty()) {
    std::size_t start = open + 1;
    commas.push_back(close);
    for (const std::size_t comma : commas) {
      for (std::string& one : braces(text.substr(start, comma - start), depth + 1))
        choices.push_back(std::move(one));
      start = comma + 1;
    }
  } else if (const std::size_t dots = inner.find(".."); dots != std::string::npos) {
    const auto first = shell_integer(inner.substr(0, dots)), last = shell_integer(inner.substr(dots + 2));
    if (!first || !last || dots == 0 || dots + 2 == inner.size() || std::llabs(*last - *first) > 10'000)
      return {text};
    const std::int64_t way = *first <= *last ? 1 : -1;
    for (std::int64_t i = *first; i != *last + way; i += way) choices.push_back(std::to_string(i));
  } else {
    return {text};
  }
  std::vector<std::string> out;
  for (const std::string& tail : braces(text.substr(close + 1), depth + 1))
    for (const std::string& choice : choices) {
      if (out.size() >= 10'000) return {text};
      out.push_back(text.substr(0, open) + choice + tail);
    }
  if (choices.size() > 1) {  // in the order of the first brace
    std::vector<std::string> ordered;
    const std::size_t tails = out.size() / choices.size();
    for (std::size_t c = 0; c < choices.size(); ++c)
      for (std::size_t t = 0; t < tails; ++t) ordered.push_back(out[t * choices.size() + c]);
    return ordered;
  }
  return out;
}

bool literal(const RawWord& word) {
  return word.parts.size() == 1 && word.parts[0].kind == Part::Kind::text && !word.parts[0].quoted;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("*?[]\\").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string cased(std::string text, bool upper, bool first_only) {
  const std::size_t end = first_only ? std::min<std::size_t>(1, text.size()) : text.size();
  for (std::size_t i = 0; i < end; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    text[i] = static_cast<char>(upper ? std::toupper(c) : std::tolower(c));
  }
  return text;
}

/// `text` without its shortest or longest start (or end) that matches.
std::string trimmed(const std::string& text, const std::string& pattern, bool front, bool longest) {
  for (std::size_t n = 0; n <= text.size(); ++n) {
    const std::size_t size = longest ? text.size() - n : n;
    const std::string_view piece =
        front ? std::string_view(text).substr(0, size) : std::string_view(text).substr(text.size() - size);
    if (!matches(pattern, piece, PatternOf::text)) continue;
    return front ? text.substr(size) : text.substr(0, text.size() - size);
  }
  return text;
}

/// The first, or every, longest match replaced.
std::string replaced(const std::string& text, const std::string& pattern, const std::string& with,
                     const std::string& operation) {
  if (pattern.empty() || text.size() > 4096) return text;
  std::string out;
  std::size_t at = 0;
  bool done = false;
  while (at < text.size()) {
    std::size_t size = 0;
    if (!done)
      for (std::size_t n = text.size() - at; n > 0 && size == 0; --n) {
        if (operation == "/%" && at + n != text.size()) break;
        if (matches(pattern, std::string_view(text).substr(at, n), PatternOf::text)) size = n;
      }
    if (operation == "/#" && at > 0) size = 0;
    if (size == 0) {
      out += text[at++];
      continue;
    }
    out += with;
    at += size;
    done = operation != "//";
  }
  return out;
}

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

std::vector<Word> Interpreter::fields(const std::vector<RawWord>& words) {
  std::vector<Word> out;
  for (const RawWord& word : words)
    for (Word& one : fields(word)) out.push_back(std::move(one));
  if (out.size() > kMostFields && !words.empty())
    fail_at(words.front().place, "expected at most 100,000 words of one command");
  return out;
}

std::vector<Word> Interpreter::fields(const RawWord& word) {
  Fields cut;
  cut.place = word.place;
  if (literal(word)) {
    for (std::string& text : braces(word.parts[0].text)) {
      if (text == "~" || text.starts_with("~/"))
        if (const auto home = value("HOME", "", word.place)) text = home->text + text.substr(1);
      cut.out.push_back({.text = std::move(text), .unknown = {}, .place = word.place});
    }
    return std::move(cut.out);
  }
  for (std::size_t i = 0; i < word.parts.size() && !error_; ++i) {
    const Part& one = word.parts[i];
    if (one.kind == Part::Kind::text) {
      if (one.text.empty() && !one.quoted) continue;
      std::string text = one.text;
      if (i == 0 && !one.quoted && text.starts_with("~/"))
        if (const auto home = value("HOME", "", word.place)) text = home->text + text.substr(1);
      // "" is a word of its own, except beside "$@".
      const bool empty_quotes =
          text.empty() && word.parts.size() == 2 && i == 0 && list(word.parts[1], word.place);
      if (!empty_quotes) cut.add({.text = std::move(text), .unknown = {}, .place = {}});
      continue;
    }
    if (auto items = list(one, word.place)) {
      if (!one.quoted) {
        for (const Word& item : *items) {
          cut.split(item);
          cut.close();
        }
        continue;
      }
      const bool alone = !cut.open && i + 1 == word.parts.size();
      for (std::size_t n = 0; n < items->size(); ++n) {
        if (n > 0) cut.close();
        if (!cut.open && (alone || n > 0)) cut.current.place = (*items)[n].place;
        cut.add((*items)[n]);
      }
      continue;
    }
    const Word found = part(one, word.place);
    if (one.quoted) {
      cut.add(found);
      continue;
    }
    // A variable that nothing sets is no word at all when it stands alone, as in the shell.
    const bool alone = word.parts.size() == 1;
    const bool unset = alone && found.unknown.size() == 1 && found.unknown[0].unset &&
                       found.unknown[0].size == found.text.size();
    if (!unset) cut.split(found);
  }
  cut.close();
  for (const Word& one : cut.out) spend(one.text.size(), word.place);
  return std::move(cut.out);
}

Word Interpreter::joined(const RawWord& word) {
  Word out;
  out.place = word.place;
  for (std::size_t i = 0; i < word.parts.size() && !error_; ++i) {
    const Part& one = word.parts[i];
    if (one.kind == Part::Kind::text) {
      if (i == 0 && !one.quoted && (one.text == "~" || one.text.starts_with("~/"))) {
        if (const auto home = value("HOME", "", word.place)) out.append(*home);
        out.append(std::string_view(one.text).substr(1));
      } else {
        out.append(one.text);
      }
    } else if (auto items = list(one, word.place)) {
      for (std::size_t n = 0; n < items->size(); ++n) {
        if (n > 0) out.append(" ");
        out.append((*items)[n]);
      }
    } else {
      out.append(part(one, word.place));
    }
  }
  spend(out.text.size(), word.place);
  return out;
}

std::string Interpreter::pattern(const RawWord& word) {
  std::string out;
  for (const Part& one : word.parts) {
    if (one.kind == Part::Kind::text) {
      out += one.quoted ? escaped(one.text) : one.text;
    } else {
      const Word found = part(one, word.place);
      out += one.quoted ? escaped(found.text) : found.text;
    }
  }
  return out;
}

Word Interpreter::part(const Part& one, const Place& place) {
  if (!step(place)) return {};
  switch (one.kind) {
    case Part::Kind::text:
      return {.text = one.text, .unknown = {}, .place = place};
    case Part::Kind::parameter:
      return parameter(one, place);
    case Part::Kind::command:
      return printed(one, place);
    case Part::Kind::arithmetic: {
      std::string missing;
      if (const auto result = number(*one.argument, place, &missing))
        return {.text = std::to_string(*result), .unknown = {}, .place = place};
      return unknown_word(one.text, missing,
                          missing.empty() ? "depends on what is not known" : missing + " is not known",
                          place);
    }
  }
  return {};
}

/// What a command would print. What it does to variables is lost, as in the subshell that it is.
Word Interpreter::printed(const Part& one, const Place& place) {
  State before = state_;
  const Flow flow = std::exchange(flow_, Flow::none);
  state_.output = {};
  ++printing_;
  if (printing_ > 50) fail_at(place, "expected at most 50 levels of $( … )");
  const std::size_t remarks = reading_.remarks.size();
  node(*one.program);
  reading_.remarks.resize(std::min(remarks, reading_.remarks.size()));
  --printing_;
  flow_ = flow;
  Word out = std::move(state_.output);
  state_ = std::move(before);
  while (!out.text.empty() && out.text.back() == '\n' &&
         (out.unknown.empty() || out.unknown.back().at + out.unknown.back().size < out.text.size()))
    out.text.pop_back();
  out.place = place;
  for (Unknown& stretch : out.unknown)
    if (stretch.name.empty() && out.unknown.size() == 1 && stretch.size == out.text.size()) {
      out.text = one.text;
      stretch.size = out.text.size();
    }
  return out;
}

std::optional<std::int64_t> Interpreter::number(const RawWord& expression, const Place& place,
                                                std::string* missing) {
  const bool before = std::exchange(asking_, false);
  const Word text = joined(expression);
  asking_ = before;
  return number(text, place, missing);
}

std::optional<std::int64_t> Interpreter::number(const Word& text, const Place& place, std::string* missing) {
  if (error_) return std::nullopt;
  if (!text.known()) {
    if (missing != nullptr) *missing = text.unknown.front().name;
    return std::nullopt;
  }
  int depth = 0;
  ArithmeticScope scope;
  scope.get = [&](const std::string& name) -> std::optional<std::int64_t> {
    const auto found = value(name, "", place);
    if (!found || !found->known()) {
      if (missing != nullptr && missing->empty()) *missing = found ? found->unknown.front().name : name;
      return std::nullopt;
    }
    if (const auto plain = shell_integer(found->text)) return plain;
    if (++depth > 20) return std::nullopt;
    const auto inner = arithmetic(found->text, scope);
    --depth;
    return inner ? *inner : std::nullopt;
  };
  scope.set = [&](const std::string& name, std::optional<std::int64_t> result) {
    set(name, result ? Word{.text = std::to_string(*result), .unknown = {}, .place = place}
                     : unknown_word("$" + name, name, "is calculated from what is not known", place));
  };
  const auto result = arithmetic(text.text, scope);
  if (!result) {
    fail_at(place, fmt::format("{} in $(({}))", result.error().message, text.text.substr(0, 60)));
    return std::nullopt;
  }
  return *result;
}

std::string Interpreter::index_of(const Variable* variable, const std::string& index, const Place& place) {
  std::string text = index;
  const bool associative = variable != nullptr && variable->associative;
  if (index.find('$') != std::string::npos || index.find('"') != std::string::npos ||
      index.find('\'') != std::string::npos) {
    // An index is a word of its own.
    auto program = parse_script(": " + index, place.file, std::max(place.line, 1));
    if (program && !(*program)->children.empty() && (*program)->children[0]->words.size() > 1) {
      const Word word = joined((*program)->children[0]->words[1]);
      // Nobody knows which item: none has the index's text.
      if (!word.known()) return word.text;
      text = word.text;
    }
  }
  if (associative) return text;
  if (all_digits(text)) return text;
  const auto result = number(Word{.text = text, .unknown = {}, .place = place}, place, nullptr);
  if (!result) return text;
  if (*result >= 0 || variable == nullptr) return std::to_string(*result);
  return std::to_string(static_cast<std::int64_t>(variable->items.size()) + *result);
}

std::optional<Word> Interpreter::value(const std::string& name, const std::string& index,
                                       const Place& place) {
  const auto plain = [&](std::string text) {
    return Word{.text = std::move(text), .unknown = {}, .place = place};
  };
  const auto later = [&](const char* why) { return unknown_word("$" + name, "", why, place); };
  if (all_digits(name)) {
    std::size_t at = 0;
    for (const char c : name)
      at = std::min<std::size_t>(at * 10 + static_cast<std::size_t>(c - '0'), 1 << 20);
    if (at == 0) return plain(script_);
    takes_arguments_ = takes_arguments_ || state_.locals.empty();
    if (at > state_.positional.size()) return std::nullopt;
    return state_.positional[at - 1];
  }
  if (name == "#") return plain(std::to_string(state_.positional.size()));
  if (name == "?") return plain("0");
  if (name == "-") return plain("");
  if (name == "LINENO") return plain(std::to_string(place.line));
  if (name == "$" || name == "!" || name == "PPID" || name == "BASHPID")
    return later("is a process's number");
  if (name == "BASH_SOURCE") return plain(place.file.empty() ? script_ : place.file);
  if (const Variable* found = find(name)) {
    if (found->items.empty()) return index.empty() ? std::nullopt : std::optional<Word>{};
    const std::string key = index.empty() ? "0" : index_of(found, index, place);
    const Variable* again = find(name);  // expanding the index may have moved it
    if (again == nullptr) return std::nullopt;
    for (const auto& [at, item] : again->items)
      if (at == key) return item;
    return std::nullopt;
  }
  if (const auto given = context_.environment.find(name); given != context_.environment.end())
    return Word{.text = given->second, .unknown = {}, .place = {"--env " + name, 0, 0, 0}};
  if (name == "PWD") return plain(state_.directory);
  if (context_.variable)
    if (const auto own = context_.variable(name))
      return Word{.text = *own, .unknown = {}, .place = {"variable " + name, 0, 0, 0}};
  if (const auto set = job_.find(name); set != job_.end())
    return Word{.text = set->second, .unknown = {}, .place = {"#SBATCH " + name, 0, 0, 0}};
  if (given_.count(name) > 0) return unknown_word("$" + name, name, "nothing sets it", place);
  if (name == "RANDOM" || name == "SRANDOM" || name == "SECONDS" || name == "EPOCHSECONDS" ||
      name == "EPOCHREALTIME" || name == "HOSTNAME")
    return later("is known when it runs");
  return std::nullopt;
}

std::optional<std::vector<Word>> Interpreter::list(const Part& one, const Place& place) {
  if (one.kind != Part::Kind::parameter || one.length) return std::nullopt;
  std::vector<Word> items;
  if (one.text == "@" || (one.text == "*" && !one.quoted)) {
    takes_arguments_ = takes_arguments_ || state_.locals.empty();
    items = state_.positional;
  } else if (one.index == "@" || (one.index == "*" && !one.quoted)) {
    const Variable* found = find(one.text);
    if (found == nullptr) {
      if (one.text == "BASH_SOURCE") return std::nullopt;
    } else if (one.indirect) {  // ${!A[@]}: its indices
      for (const auto& [key, item] : found->items)
        items.push_back({.text = key, .unknown = {}, .place = place});
      return items;
    } else {
      for (const auto& [key, item] : found->items) items.push_back(item);
    }
  } else {
    return std::nullopt;
  }
  if (one.operation.empty()) return items;
  if (one.operation == ":") {
    const auto start = one.argument ? number(*one.argument, place, nullptr) : std::optional<std::int64_t>(0);
    const auto count = one.second ? number(*one.second, place, nullptr)
                                  : std::optional<std::int64_t>(static_cast<std::int64_t>(items.size()));
    if (!start || !count) return items;
    std::int64_t from = one.text == "@" || one.text == "*" ? std::max<std::int64_t>(*start - 1, 0) : *start;
    const auto size = static_cast<std::int64_t>(items.size());
    if (from < 0) from += size;
    from = std::clamp<std::int64_t>(from, 0, size);
    const std::int64_t to =
        std::clamp<std::int64_t>(*count < 0 ? size + *count : from + std::min(*count, size), from, size);
    return std::vector<Word>(items.begin() + from, items.begin() + to);
  }
  if (one.operation.find_first_of("-+=?") != std::string::npos && one.operation.size() <= 2) {
    const bool plus = one.operation.ends_with("+");
    if (items.empty() == plus) return plus ? std::vector<Word>{} : items;
    if (!plus && !items.empty()) return items;
    if (plus && items.empty()) return std::vector<Word>{};
    return one.argument ? fields(*one.argument) : std::vector<Word>{};
  }
  for (Word& item : items) item = changed(one, item, place);
  return items;
}

void Interpreter::note_if_empty(const std::string& name, const std::optional<Word>& value) {
  const bool named = !name.empty() && (std::isalpha(static_cast<unsigned char>(name[0])) != 0 || name[0] == '_');
  if (named && (!value || (value->known() && value->text.empty()))) empty_in_tests_.insert(name);
}

Word Interpreter::parameter(const Part& one, const Place& place) {
  const auto plain = [&](std::string text) {
    return Word{.text = std::move(text), .unknown = {}, .place = place};
  };
  std::string name = one.text;
  if (one.length && (one.index == "@" || one.index == "*" || name == "@" || name == "*")) {
    const Variable* found = find(name);
    const std::size_t count = name == "@" || name == "*" ? state_.positional.size()
                              : found == nullptr         ? 0
                                                         : found->items.size();
    return plain(std::to_string(count));
  }
  if (one.text == "*" || one.index == "*") {  // quoted: one word
    Part all = one;
    all.quoted = false;
    Word out = plain("");
    const auto items = list(all, place);
    for (std::size_t i = 0; items && i < items->size(); ++i) {
      if (i > 0) out.append(" ");
      out.append((*items)[i]);
    }
    return out;
  }
  if (one.indirect) {
    const auto pointer = value(name, "", place);
    if (!pointer || !pointer->known())
      return unknown_word("${!" + name + "}", name, "nothing sets it", place);
    name = pointer->text;
  }
  std::optional<Word> found = value(name, one.index, place);
  if (testing_ && one.index.empty()) note_if_empty(name, found);
  const std::string& op = one.operation;
  const bool colon = op.size() == 2 && op[0] == ':';
  const char kind = op == ":-" || op == ":=" || op == ":?" || op == ":+" ? op[1]
                    : op == "-" || op == "=" || op == "?" || op == "+"   ? op[0]
                                                                         : '\0';
  const bool empty = !found || (colon && found->known() && found->text.empty());
  if (kind == '+') return empty || !one.argument ? plain("") : joined(*one.argument);
  if (kind != '\0' && !empty) return *found;
  if (kind == '-' || kind == '=') {
    Word other = one.argument ? joined(*one.argument) : plain("");
    if (kind == '=' && one.index.empty() && !error_) set(name, other);
    return other;
  }
  const std::string written =
      op.empty() && one.index.empty() && !one.indirect ? "$" + name : "${" + name + "}";
  if (!found) {
    if (asking_) return plain(one.length ? "0" : "");
    if (all_digits(name) && name != "0")
      return unset_word(written, "", fmt::format("word {} is not given; give it after --", name), place);
    return unset_word(written, name, "nothing sets it", place);
  }
  if (one.length) return found->known() ? plain(std::to_string(found->text.size())) : *found;
  if (op.empty() || kind == '?') return *found;
  if (!found->known()) {
    Word out = *found;
    return out;
  }
  return op == ":" ? slice(one, *found, place) : changed(one, *found, place);
}

Word Interpreter::slice(const Part& one, const Word& whole, const Place& place) {
  const auto start = number(*one.argument, place, nullptr);
  const auto count = one.second ? number(*one.second, place, nullptr) : std::optional<std::int64_t>(1 << 30);
  if (!start || !count) return whole;
  const auto size = static_cast<std::int64_t>(whole.text.size());
  const std::int64_t from = std::clamp<std::int64_t>(*start < 0 ? size + *start : *start, 0, size);
  const std::int64_t to =
      std::clamp<std::int64_t>(*count < 0 ? size + *count : from + std::min(*count, size), from, size);
  return {.text = whole.text.substr(static_cast<std::size_t>(from), static_cast<std::size_t>(to - from)),
          .unknown = {},
          .place = place};
}

Word Interpreter::changed(const Part& one, const Word& whole, const Place& place) {
  if (!whole.known() || !one.argument) return whole;
  const std::string& op = one.operation;
  Word out{.text = whole.text, .unknown = {}, .place = place};
  if (op[0] == '#' || op[0] == '%') {
    out.text = trimmed(whole.text, pattern(*one.argument), op[0] == '#', op.size() == 2);
  } else if (op[0] == '/') {
    const Word with = one.second ? joined(*one.second) : Word{};
    if (!with.known())
      return unknown_word("${" + one.text + "}", with.unknown.front().name, "is not known", place);
    out.text = replaced(whole.text, pattern(*one.argument), with.text, op);
  } else if (op[0] == '^' || op[0] == ',') {
    out.text = cased(whole.text, op[0] == '^', op.size() == 1);
  } else if (op == "@") {
    const std::string what = joined(*one.argument).text;
    if (what == "L" || what == "U") out.text = cased(whole.text, what == "U", false);
  }
  return out;
}

}  // namespace headroom::shell
