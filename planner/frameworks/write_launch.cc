#include "planner/frameworks/write_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "planner/configuration/override.h"
#include "planner/configuration/value_grammar.h"
#include "planner/frameworks/shell/launch.h"

namespace headroom {
namespace {

struct Edit {
  std::size_t begin = 0, end = 0;
  std::string text;
};

/// The key that a word of the launch sets; empty: none.
std::string_view key_of(std::string_view word) {
  while (!word.empty() && (word.front() == '+' || word.front() == '~')) word.remove_prefix(1);
  return word.substr(0, word.find('='));
}

std::string comment(const WriteHeader& header) {
  std::string out;
  for (const std::string& line : header.lines) out += line.empty() ? "#\n" : "# " + line + "\n";
  return out;
}

/// Whether the launch's own command holds this place, so that a word can be put behind it.
bool in_command(const shell::Place& word, const shell::Place& command) {
  return word.file == command.file && word.end > word.begin && word.begin >= command.begin &&
         word.end <= command.end;
}

Result<std::vector<Setting>> all_settings(const ReadJob& read, std::span<const Setting> settings) {
  std::vector<Setting> out;
  for (const std::string& text : read.overrides) {
    HEADROOM_ASSIGN(const Override change, parse_override(text, "--set"));
    if (change.kind != Override::Kind::remove) out.push_back({change.key, format_value(change.value)});
  }
  for (const Setting& setting : settings) {
    const auto same =
        std::find_if(out.begin(), out.end(), [&](const Setting& other) { return other.key == setting.key; });
    if (same != out.end()) {
      same->value = setting.value;
    } else {
      out.push_back(setting);
    }
  }
  return out;
}

}  // namespace

std::string shell_quoted(std::string_view word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_-./=+:,@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return std::string(word);
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

Result<std::string> write_script(const ReadJob& read, std::span<const Setting> settings,
                                 const WriteHeader& header, const Spelling& spelling) {
  const JobInput::File* script = nullptr;
  for (const JobInput::File& file : read.input.files)
    if (file.launch != nullptr) script = &file;
  if (script == nullptr)
    return fail(
        "expected a launch script or a command as CONFIG, so that it can be written back, found none");
  HEADROOM_ASSIGN(const std::vector<Setting> wanted, all_settings(read, settings));
  const shell::Launch& launch = *script->launch;
  std::string text = script->text;
  if (text.empty()) {  // a command line: written as one
    text = launch.runner == "python" ? "python3" : launch.runner;
    for (std::size_t i = 1; i < launch.runner_words.size(); ++i)
      text += " " + shell_quoted(launch.runner_words[i].text);
    for (const shell::Word& word : launch.words) {
      const std::string_view key = key_of(word.text);
      const bool changed =
          std::any_of(wanted.begin(), wanted.end(), [&](const Setting& s) { return s.key == key; });
      if (!changed) text += " \\\n    " + shell_quoted(word.text);
    }
    for (const Setting& setting : wanted) text += " \\\n    " + shell_quoted(spelling(setting));
    return comment(header) + text + "\n";
  }
  std::vector<Edit> edits;
  std::string added;
  const shell::Word* last = nullptr;
  for (const shell::Word& word : launch.words)
    if (in_command(word.place, launch.place) && (last == nullptr || word.place.end > last->place.end))
      last = &word;
  for (const Setting& setting : wanted) {
    const shell::Word* found = nullptr;
    for (const shell::Word& word : launch.words)
      if (key_of(word.text) == setting.key) found = &word;  // the last one counts
    const bool stands =
        found != nullptr && found->place.file == launch.place.file && found->place.end > found->place.begin &&
        key_of(std::string_view(text).substr(found->place.begin, found->place.end - found->place.begin)) ==
            setting.key;
    if (stands) {
      edits.push_back({found->place.begin, found->place.end, shell_quoted(spelling(setting))});
    } else {
      added += " \\\n    " + shell_quoted(spelling(setting));
    }
  }
  const std::size_t end = last != nullptr               ? last->place.end
                          : launch.runner_words.empty() ? 0
                                                        : launch.runner_words.back().place.end;
  if (!added.empty()) {
    if (end == 0) return fail("the launch's words do not stand in the script, so none can be added to them");
    edits.push_back({end, end, added});
  }
  std::stable_sort(edits.begin(), edits.end(),
                   [](const Edit& a, const Edit& b) { return a.begin > b.begin; });
  for (const Edit& edit : edits) text.replace(edit.begin, edit.end - edit.begin, edit.text);
  // Behind the line that names the shell.
  const std::size_t first = text.starts_with("#!") ? std::min(text.find('\n'), text.size() - 1) + 1 : 0;
  return text.substr(0, first) + comment(header) + text.substr(first);
}

std::string write_overrides(std::span<const Setting> settings, const WriteHeader& header,
                            const Spelling& spelling) {
  std::string out = comment(header);
  for (const Setting& setting : settings) out += shell_quoted(spelling(setting)) + "\n";
  return out;
}

}  // namespace headroom
