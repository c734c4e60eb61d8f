#include "planner/frameworks/settings/arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/configuration/override.h"
#include "planner/configuration/value_grammar.h"

namespace headroom::settings {
namespace {

/// `--name`, `-n`, and not a negative number.
bool is_flag(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && !(word[1] >= '0' && word[1] <= '9') && word[1] != '.' &&
         word.find(' ') == std::string::npos;
}

std::string flag_name(const std::string& word, bool dashes) {
  std::string name = word.substr(
      word.find_first_not_of('-') == std::string::npos ? word.size() : word.find_first_not_of('-'));
  name.resize(std::min(name.find('='), name.size()));
  if (dashes) std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// The key that a unique beginning stands for.
std::string completed(const std::string& name, std::span<const Key> keys) {
  const Key* found = nullptr;
  for (const Key& key : keys) {
    if (key.path == name) return name;
    if (name.size() >= 3 && key.path.starts_with(name)) {
      if (found != nullptr && found->path != key.path) return name;
      found = &key;
    }
  }
  return found == nullptr ? name : found->path;
}

struct Flag {
  std::string key;
  const shell::Word* word = nullptr;  ///< the flag itself
  std::vector<shell::Word> values;    ///< those behind it, or the part behind `=`
  std::size_t last = 0;               ///< index of its last word
};

std::vector<Flag> flags_of(const shell::Launch& launch, std::span<const Key> keys, bool dashes,
                           std::vector<std::string>* stray) {
  std::vector<Flag> out;
  for (std::size_t i = 0; i < launch.words.size(); ++i) {
    const shell::Word& word = launch.words[i];
    if (!is_flag(word.text)) {
      if (!out.empty()) {
        out.back().values.push_back(word);
        out.back().last = i;
      } else if (stray != nullptr) {
        stray->push_back(word.text);
      }
      continue;
    }
    Flag flag{.key = completed(flag_name(word.text, dashes), keys), .word = &word, .values = {}, .last = i};
    if (const std::size_t at = word.text.find('='); at != std::string::npos)
      flag.values.push_back(part_of(word, at + 1, word.text.size()));
    out.push_back(std::move(flag));
  }
  return out;
}

Document value_of(const Flag& flag) {
  const int line = flag.word->place.line;
  if (flag.values.empty()) return Document::scalar("true", line);
  if (flag.values.size() == 1) return Document::scalar(flag.values.front().text, line);
  Document list = Document::list(line);
  for (const shell::Word& value : flag.values) list.append(Document::scalar(value.text, line));
  return list;
}

constexpr std::string_view kMark = "# Written by Headroom.";

struct Edit {
  std::size_t begin, end;
  std::string text;
};

}  // namespace

Result<Arguments> read_arguments(const shell::Launch& launch, std::span<const Key> keys,
                                 const JobOptions& options, bool dashes) {
  Arguments out;
  for (const Flag& flag : flags_of(launch, keys, dashes, &out.stray)) {
    const std::string file = flag.word->place.file.empty() ? "--" : flag.word->place.file;
    const Status laid = out.layers.apply({.kind = Override::Kind::force,
                                          .key = flag.key,
                                          .value = value_of(flag),
                                          .file = file,
                                          .line = flag.word->place.line});
    if (!laid) return tl::unexpected<Error>(laid.error());
    out.unknown.erase(flag.key);
    const auto key =
        std::find_if(keys.begin(), keys.end(), [&](const Key& one) { return one.path == flag.key; });
    const bool alone = key == keys.end() || key->kind == Kind::boolean || key->kind == Kind::any;
    if (flag.values.empty() && !alone)
      out.unknown[flag.key] = "none (a variable that nothing sets leaves no word)";
    for (const shell::Word& value : flag.values)
      if (!value.known()) out.unknown[flag.key] = what_is_missing(value);
  }
  for (const std::string& text : options.overrides) {
    HEADROOM_ASSIGN(const Override change, parse_override(text, "--set"));
    HEADROOM_TRY(out.layers.apply(change));
    out.unknown.erase(change.key);
  }
  out.layers.set_environment(options.environment);
  return out;
}

void refuse_unknown(Values& values, std::span<const Key> keys, const Release& release,
                    const std::map<std::string, std::string>& unknown) {
  for (const auto& [key, missing] : unknown) {
    const Key* row = find_key(keys, key, release);
    if (row != nullptr && row->path == key && row->effect != Effect::none)
      values.fail_at(key, "expected a value, found " + missing);
  }
}

Result<std::string> write_arguments(const ReadJob& read, std::span<const Setting> settings,
                                    const WriteHeader& header) {
  const JobInput::File& file = read.input.files.front();
  const shell::Launch& launch = *file.launch;
  std::vector<Setting> changes;
  for (const std::string& text : read.overrides) {
    HEADROOM_ASSIGN(const Override change, parse_override(text, "--set"));
    if (!change.key.starts_with("headroom.")) changes.push_back({change.key, format_value(change.value)});
  }
  changes.insert(changes.end(), settings.begin(), settings.end());
  const std::vector<Flag> flags = flags_of(launch, {}, false, nullptr);
  std::vector<Edit> edits;
  std::string added;
  std::size_t end = 0;
  for (const shell::Word& word : launch.words)
    if (word.place.file == file.path) end = std::max(end, word.place.end);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const Setting& change = changes[i];
    if (std::any_of(changes.begin() + static_cast<std::ptrdiff_t>(i) + 1, changes.end(),
                    [&](const Setting& later) { return later.key == change.key; }))
      continue;
    const Document value = Document::scalar(change.value);
    const bool off = change.value == "false" || change.value == "null", on = change.value == "true";
    const auto given = std::find_if(flags.rbegin(), flags.rend(), [&](const Flag& flag) {
      return flag.key == change.key || flag.key == completed(change.key, {});
    });
    if (given == flags.rend()) {
      if (!off)
        added += on ? fmt::format(" --{}", change.key) : fmt::format(" --{} {}", change.key, change.value);
      continue;
    }
    const shell::Place& at = given->word->place;
    if (at.file != file.path || at.begin == at.end)
      return fail(Error{.message = fmt::format("stands in {}, which is not the script that is written",
                                               at.file.empty() ? "no file" : at.file),
                        .file = file.path,
                        .line = at.line,
                        .key = change.key});
    std::size_t last = at.end;
    for (const shell::Word& word : given->values)
      if (word.place.file == file.path) last = std::max(last, word.place.end);
    const bool joined = given->word->text.find('=') != std::string::npos;
    edits.push_back({at.begin, last,
                     off  ? std::string()
                     : on ? fmt::format("--{}", given->key)
                          : fmt::format("--{}{}{}", given->key, joined ? "=" : " ", change.value)});
  }
  if (!added.empty()) edits.push_back({end, end, added});
  std::sort(edits.begin(), edits.end(), [](const Edit& a, const Edit& b) { return a.begin > b.begin; });
  std::string text = file.text;
  for (const Edit& edit : edits) text.replace(edit.begin, edit.end - edit.begin, edit.text);
  std::string head;
  if (!header.lines.empty()) {
    head = std::string(kMark) + "\n";
    for (const std::string& line : header.lines) head += line.empty() ? "#\n" : "# " + line + "\n";
  }
  // A script's first line stays the first.
  if (text.starts_with("#!")) {
    const std::size_t first = text.find('\n') == std::string::npos ? text.size() : text.find('\n') + 1;
    return text.substr(0, first) + head + text.substr(first);
  }
  return head + text;
}

}  // namespace headroom::settings
