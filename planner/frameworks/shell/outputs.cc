#include "planner/frameworks/shell/outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>

#include "planner/frameworks/shell/arithmetic.h"

namespace headroom::shell {
namespace {

constexpr std::int64_t kLongestSequence = 10'000;

Word plain(std::string text, const Place& place) {
  return {.text = std::move(text), .unknown = {}, .place = place};
}

/// The words behind the options.
std::vector<const Word*> operands(const std::vector<Word>& words) {
  std::vector<const Word*> out;
  for (std::size_t i = 1; i < words.size(); ++i)
    if (!words[i].text.starts_with('-') || words[i].text == "-" || !words[i].known())
      out.push_back(&words[i]);
  return out;
}

/// `-d,`, `-d ,`; nothing when absent.
std::optional<std::string> option(const std::vector<Word>& words, const std::string& flag) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i].text == flag) return i + 1 < words.size() ? words[i + 1].text : "";
    if (words[i].text.starts_with(flag)) return words[i].text.substr(flag.size());
  }
  return std::nullopt;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    out.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return out;
}

Word echo(const std::vector<Word>& words, const Place& place) {
  Word out = plain("", place);
  std::size_t at = 1;
  bool ends_line = true;
  while (at < words.size() && (words[at].text == "-n" || words[at].text == "-e" || words[at].text == "-ne" ||
                               words[at].text == "-en"))
    ends_line = words[at++].text == "-e" && ends_line;
  for (std::size_t i = at; i < words.size(); ++i) {
    if (i > at) out.append(" ");
    out.append(words[i]);
  }
  if (ends_line) out.append("\n");
  return out;
}

/// The format's `%s`, `%d` and escapes, once or as often as there are words for.
std::optional<Word> print_formatted(const std::vector<Word>& words, const Place& place) {
  if (words.size() < 2 || !words[1].known()) return std::nullopt;
  const std::string& format = words[1].text;
  Word out = plain("", place);
  std::size_t next = 2;
  do {
    const std::size_t before = next;
    for (std::size_t i = 0; i < format.size(); ++i) {
      const char c = format[i], after = i + 1 < format.size() ? format[i + 1] : '\0';
      if (c == '\\' && (after == 'n' || after == 't' || after == '\\')) {
        out.append(after == 'n' ? "\n" : after == 't' ? "\t" : "\\");
        ++i;
      } else if (c == '%' && after == '%') {
        out.append("%");
        ++i;
      } else if (c == '%' && (after == 's' || after == 'd' || after == 'i')) {
        if (next < words.size()) out.append(words[next]);
        ++next;
        ++i;
      } else if (c == '%') {
        return std::nullopt;
      } else {
        out.append(std::string(1, c));
      }
    }
    if (next == before) break;
  } while (next < words.size());
  return out;
}

/// A set of tr: ranges, `\n`, classes of letters.
std::optional<std::string> letters(const std::string& set) {
  if (set == "[:upper:]") return letters("A-Z");
  if (set == "[:lower:]") return letters("a-z");
  if (set == "[:space:]") return std::string(" \t\n\r");
  if (set.find("[:") != std::string::npos) return std::nullopt;
  std::string out;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (set[i] == '\\' && i + 1 < set.size()) {
      ++i;
      out += set[i] == 'n' ? '\n' : set[i] == 't' ? '\t' : set[i];
    } else if (i + 2 < set.size() && set[i + 1] == '-') {
      for (int c = set[i]; c <= set[i + 2]; ++c) out += static_cast<char>(c);
      i += 2;
    } else {
      out += set[i];
    }
  }
  return out;
}

std::optional<Word> translated(const std::vector<Word>& words, const std::string& text, const Place& place) {
  const bool deletes = option(words, "-d").has_value();
  const auto sets = operands(words);
  if (sets.empty() || sets.size() > 2 || option(words, "-s") || option(words, "-c")) return std::nullopt;
  const auto from = letters(sets[0]->text);
  const auto to = deletes            ? std::optional<std::string>("")
                  : sets.size() == 2 ? letters(sets[1]->text)
                                     : std::nullopt;
  if (!from || !to || (!deletes && to->empty())) return std::nullopt;
  std::string out;
  for (const char c : text) {
    const std::size_t at = from->find(c);
    if (at == std::string::npos) {
      out += c;
    } else if (!deletes) {
      out += (*to)[std::min(at, to->size() - 1)];
    }
  }
  return plain(std::move(out), place);
}

std::optional<Word> cut(const std::vector<Word>& words, const std::string& text, const Place& place) {
  const auto mark = option(words, "-d"), field = option(words, "-f");
  const auto n = field ? shell_integer(*field) : std::nullopt;
  if (!n || *n < 1 || (mark && mark->size() != 1)) return std::nullopt;
  const char separator = mark ? mark->front() : '\t';
  std::string out;
  for (const std::string& line : lines_of(text)) {
    std::size_t start = 0;
    std::int64_t at = 1;
    while (at < *n && start != std::string::npos) {
      const std::size_t next = line.find(separator, start);
      start = next == std::string::npos ? next : next + 1;
      ++at;
    }
    if (line.find(separator) == std::string::npos) {
      out += line;
    } else if (start != std::string::npos) {
      out += line.substr(start, line.find(separator, start) - start);
    }
    out += '\n';
  }
  return plain(std::move(out), place);
}

std::optional<Word> counted(const std::vector<Word>& words, const std::string& text, const Place& place) {
  if (words.size() != 2) return std::nullopt;
  std::int64_t count = 0;
  if (words[1].text == "-l") {
    count = std::count(text.begin(), text.end(), '\n');
  } else if (words[1].text == "-w") {
    bool inside = false;
    for (const char c : text) {
      const bool blank = c == ' ' || c == '\n' || c == '\t';
      count += !blank && !inside;
      inside = !blank;
    }
  } else {
    return std::nullopt;
  }
  return plain(std::to_string(count) + "\n", place);
}

std::optional<Word> sequence(const std::vector<Word>& words, const Place& place) {
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto number = words[i].known() ? shell_integer(words[i].text) : std::nullopt;
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  if (numbers.empty() || numbers.size() > 3) return std::nullopt;
  const std::int64_t first = numbers.size() > 1 ? numbers.front() : 1, last = numbers.back(),
                     way = numbers.size() == 3 ? numbers[1] : 1;
  if (way == 0 || last > (1 << 30) || first < -(1 << 30) || std::llabs(way) > (1 << 30) ||
      (last - first) / way > kLongestSequence)
    return std::nullopt;
  std::string out;
  for (std::int64_t i = first; way > 0 ? i <= last : i >= last; i += way) out += std::to_string(i) + "\n";
  return plain(std::move(out), place);
}

std::optional<Word> calculated(const std::string& expression, const Place& place) {
  ArithmeticScope none;
  none.get = [](const std::string&) { return std::optional<std::int64_t>(); };
  none.set = [](const std::string&, std::optional<std::int64_t>) {};
  if (expression.find_first_not_of("0123456789+-*/%() \n") != std::string::npos) return std::nullopt;
  const auto result = arithmetic(expression, none);
  if (!result || !*result) return std::nullopt;
  return plain(std::to_string(**result) + "\n", place);
}

/// Programs that pass on, count or change what they read.
std::optional<Word> filtered(const std::string& name, const std::vector<Word>& words, const Word& input,
                             const Place& place) {
  if (!input.known()) return std::nullopt;
  for (const Word& word : words)
    if (!word.known()) return std::nullopt;
  if (name == "cat" && words.size() == 1) return input;
  if (name == "tr") return translated(words, input.text, place);
  if (name == "cut") return cut(words, input.text, place);
  if (name == "wc") return counted(words, input.text, place);
  if (name == "xargs" && words.size() == 1) {
    std::string out;
    for (const std::string& line : lines_of(input.text)) out += (out.empty() ? "" : " ") + line;
    return plain(out + "\n", place);
  }
  if (name == "head" || name == "tail") {
    std::int64_t n = 10;
    if (const auto count = option(words, "-n")) n = shell_integer(*count).value_or(10);
    if (words.size() == 2 && words[1].text.starts_with('-'))
      n = shell_integer(words[1].text.substr(1)).value_or(n);
    const std::vector<std::string> all = lines_of(input.text);
    const std::size_t size =
        static_cast<std::size_t>(std::clamp<std::int64_t>(n, 0, static_cast<std::int64_t>(all.size())));
    const std::size_t start = name == "head" ? 0 : all.size() - size;
    std::string out;
    for (std::size_t i = start; i < start + size; ++i) out += all[i] + "\n";
    return plain(std::move(out), place);
  }
  if (name == "bc") return calculated(input.text, place);
  return std::nullopt;
}

}  // namespace

std::string joined_path(const std::string& directory, const std::string& path) {
  const std::filesystem::path given(path);
  std::string out =
      (given.is_absolute() ? given : std::filesystem::path(directory) / given).lexically_normal().string();
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  return out;
}

std::optional<Word> known_output(const std::string& name, const std::vector<Word>& words, const Word* input,
                                 const std::string& directory, const Place& place) {
  if (name == "echo") return echo(words, place);
  if (name == "printf") return print_formatted(words, place);
  if (name == "seq") return sequence(words, place);
  if (input != nullptr)
    if (auto out = filtered(name, words, *input, place)) return out;
  const auto rest = operands(words);
  if (name == "dirname" || name == "basename" || name == "realpath" || name == "readlink") {
    if (rest.empty() || !rest[0]->known()) return std::nullopt;
    std::string path = rest[0]->text;
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    const std::size_t slash = path.rfind('/');
    if (name == "basename") {
      path = slash == std::string::npos ? path : path.substr(slash + 1);
      if (rest.size() > 1 && path.size() > rest[1]->text.size() && path.ends_with(rest[1]->text))
        path.resize(path.size() - rest[1]->text.size());
    } else if (name == "dirname") {
      path = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
    } else {
      path = joined_path(directory, path);
    }
    return plain(path + "\n", place);
  }
  if (name == "expr") {
    std::string expression;
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (!words[i].known()) return std::nullopt;
      expression += words[i].text + " ";
    }
    return calculated(expression, place);
  }
  if (name == "cat" && words.size() == 1 && input != nullptr) return *input;
  return std::nullopt;
}

}  // namespace headroom::shell
