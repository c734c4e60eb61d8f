#include "planner/frameworks/settings/arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/configuration/override.h"
#include "planner/configuration/value_grammar.h"
#include "planner/frameworks/shell/model_word.h"
#include "planner/frameworks/write_back.h"

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
  if (flag.values.size() == 1) {
    const shell::Word& value = flag.values.front();
    return Document::scalar(shell::model_at_end(value).value_or(value.text), line);
  }
  Document list = Document::list(line);
  for (const shell::Word& value : flag.values) list.append(Document::scalar(value.text, line));
  return list;
}


/// Whether a parser takes the flag without a value, for true: those that are true or false in any release, and those
/// that nobody knows.
bool stands_alone(const std::string& path, std::span<const Key> keys) {
  bool known = false;
  for (const Key& key : keys) {
    if (key.path != path) continue;
    known = true;
    if (key.kind == Kind::boolean || key.kind == Kind::any || key.fallback == "true" || key.fallback == "false") return true;
  }
  return !known;
}

struct Edit {
  std::size_t begin, end;
  std::string text;
};

/// The flags that name the model that is trained, which --model stands for.
constexpr std::string_view kTrained[] = {"pretrain",
                                         "model_name_or_path",
                                         "actor_model_name_or_path",
                                         "model.model_name_or_path",
                                         "actor.model_name_or_path"};

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
    if (flag.values.empty() && !stands_alone(flag.key, keys))
      out.unknown[flag.key] =
          fmt::format("none (an empty variable leaves no word; --set {}=VALUE says it, --env NAME=VALUE one that nothing "
                      "sets, -- WORDS a script's own)",
                      flag.key);
    for (const shell::Word& value : flag.values)
      if (!value.known() && !shell::model_at_end(value)) out.unknown[flag.key] = what_is_missing(value);
  }
  for (const std::string& text : options.overrides) {
    HEADROOM_ASSIGN(const Override change, parse_override(text, "--set"));
    HEADROOM_TRY(out.layers.apply(change));
    out.unknown.erase(change.key);
  }
  if (!options.model.empty())
    for (const std::string_view key : kTrained) out.unknown.erase(std::string(key));
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

namespace {

std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// The text of a launch that no file holds, one line a flag of the program; its words stand there then.
std::string laid_out(shell::Launch& launch, const std::string& path) {
  std::string text;
  const auto add = [&](std::vector<shell::Word>& words, bool lines) {
    for (shell::Word& word : words) {
      if (!text.empty()) text += lines && is_flag(word.text) ? " \\\n  " : " ";
      word.place = {.file = path, .line = 1, .begin = text.size(), .end = 0};
      text += quoted(word.text);
      word.place.end = text.size();
    }
  };
  add(launch.wrapper_words, false);
  add(launch.runner_words, false);
  add(launch.words, true);
  return text + "\n";
}

/// A script as it is changed: where its flags stand, and what is done to it.
class Script {
 public:
  Script(const JobInput::File& file, const Spelling& spelling)
      : path_(file.path), text_(file.text), launch_(*file.launch), spelling_(spelling) {
    if (text_.empty()) text_ = laid_out(launch_, path_);
    flags_ = flags_of(launch_, {}, false, nullptr);
    shell::Launch launcher;
    launcher.words = launch_.runner_words;
    if (!launcher.words.empty()) {
      program_ = launcher.words.back();
      launcher.words.pop_back();
    }
    launcher_words_ = std::move(launcher.words);
    launcher.words = launcher_words_;
    launcher_ = std::move(launcher);
    launcher_flags_ = flags_of(launcher_, {}, true, nullptr);
  }

  Status change(const Setting& setting) {
    const std::string own = spelling_.of_launcher ? spelling_.of_launcher(setting.key) : std::string();
    const bool launchers = !own.empty();
    const std::string& key = launchers ? own : setting.key;
    const bool gone = setting.value == "null";
    const bool off = gone || (setting.value == "false" && !spelling_.states_false);
    const bool on = setting.value == "true" && (!spelling_.states_false || launchers);
    const std::vector<Flag>& flags = launchers ? launcher_flags_ : flags_;
    const auto given =
        std::find_if(flags.rbegin(), flags.rend(), [&](const Flag& flag) { return flag.key == key; });
    std::string& added = launchers ? before_ : behind_;
    if (given == flags.rend()) {
      if (off) return {};
      const std::string flag =
          on ? fmt::format("--{}", key) : fmt::format("--{} {}", key, quoted(setting.value));
      added += launchers ? flag + " " : " " + flag;
      return {};
    }
    const shell::Place& at = given->word->place;
    if (at.file != path_ || at.begin == at.end)
      return fail(Error{.message = fmt::format("stands in {}, which is not the script that is written",
                                               at.file.empty() ? "no file" : at.file),
                        .file = path_,
                        .line = at.line,
                        .key = setting.key});
    std::size_t last = at.end;
    for (const shell::Word& word : given->values)
      if (word.place.file == path_) last = std::max(last, word.place.end);
    const bool joined = given->word->text.find('=') != std::string::npos;
    edits_.push_back({at.begin, last,
                      off  ? std::string()
                      : on ? fmt::format("--{}", given->key)
                           : fmt::format("--{}{}{}", given->key, joined ? "=" : " ", quoted(setting.value))});
    return {};
  }

  std::string take() {
    std::size_t end = 0;
    for (const shell::Word& word : launch_.words)
      if (word.place.file == path_) end = std::max(end, word.place.end);
    if (end == 0) end = program_.place.end;
    if (!behind_.empty()) edits_.push_back({end, end, behind_});
    if (!before_.empty()) edits_.push_back({program_.place.begin, program_.place.begin, before_});
    std::stable_sort(edits_.begin(), edits_.end(),
                     [](const Edit& a, const Edit& b) { return a.begin > b.begin; });
    for (const Edit& edit : edits_) text_.replace(edit.begin, edit.end - edit.begin, edit.text);
    return std::move(text_);
  }

 private:
  const std::string path_;
  std::string text_;
  shell::Launch launch_, launcher_;
  std::vector<shell::Word> launcher_words_;
  shell::Word program_;
  const Spelling& spelling_;
  std::vector<Flag> flags_, launcher_flags_;
  std::vector<Edit> edits_;
  std::string before_, behind_;
};

}  // namespace

Result<std::string> write_arguments(const ReadJob& read, std::span<const Setting> settings,
                                    const WriteHeader& header) {
  return write_arguments(read, settings, header, {});
}

Result<std::string> write_arguments(const ReadJob& read, std::span<const Setting> settings,
                                    const WriteHeader& header, const Spelling& spelling) {
  const auto file = std::find_if(read.input.files.begin(), read.input.files.end(),
                                 [](const JobInput::File& one) { return one.launch != nullptr; });
  std::vector<Setting> changes;
  for (const std::string& text : read.overrides) {
    HEADROOM_ASSIGN(const Override change, parse_override(text, "--set"));
    if (!change.key.starts_with("headroom.")) changes.push_back({change.key, format_value(change.value)});
  }
  changes.insert(changes.end(), settings.begin(), settings.end());
  Script script(*file, spelling);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const bool again = std::any_of(changes.begin() + static_cast<std::ptrdiff_t>(i) + 1, changes.end(),
                                   [&](const Setting& later) { return later.key == changes[i].key; });
    if (!again) HEADROOM_TRY(script.change(changes[i]));
  }
  std::string text = script.take();
  // A script's first line stays the first.
  const std::size_t first = text.starts_with("#!") ? std::min(text.find('\n'), text.size() - 1) + 1 : 0;
  return text.substr(0, first) + header_text(header) + std::string(without_header(std::string_view(text).substr(first)));
}

}  // namespace headroom::settings
