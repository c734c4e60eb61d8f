#include "planner/frameworks/write_back.h"

#include <algorithm>
#include <vector>

#include "planner/configuration/layers.h"
#include "planner/configuration/override.h"
#include "planner/configuration/value_grammar.h"
#include "planner/configuration/yaml_patch.h"
#include "planner/frameworks/named_configuration.h"

namespace headroom {
namespace {

constexpr std::string_view kMark = "# Written by Headroom.";

bool erase_node(Document& root, std::string_view key) {
  const std::size_t dot = key.find('.');
  if (dot == std::string_view::npos) return root.erase(key);
  Document* below = root.find(key.substr(0, dot));
  return below != nullptr && erase_node(*below, key.substr(dot + 1));
}

Status change(Document& root, const Override& wanted) {
  if (wanted.kind == Override::Kind::remove) {
    erase_node(root, wanted.key);
    return {};
  }
  const Document* old = find_node(root, wanted.key);
  Document value = as_written(wanted.value);
  if (old != nullptr && old->is_map() && value.is_map()) {
    value = *old;
    lay_over(value, as_written(wanted.value));
  }
  Status set = set_node(root, wanted.key, std::move(value));
  if (!set) set.error().key = wanted.key;
  return set;
}

}  // namespace

/// Its first line is the mark; it ends with an empty line, before anything that is no comment.
std::string_view without_header(std::string_view text) {
  if (!text.starts_with(kMark)) return text;
  std::string_view rest = text;
  while (!rest.empty() && rest.front() == '#') rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
  if (!rest.empty() && rest.front() != '\n') return text;  // its end cannot be told from what follows
  return rest.empty() ? rest : rest.substr(1);
}

std::string header_text(const WriteHeader& header) {
  if (header.lines.empty()) return "";
  std::string out = std::string(kMark) + "\n";
  for (const std::string& line : header.lines) out += line.empty() ? "#\n" : "# " + line + "\n";
  return out + "\n";
}

Result<std::string> write_back(const ReadJob& read, std::span<const Setting> settings,
                               const WriteHeader& header) {
  std::vector<Override> overrides;
  for (const std::string& text : read.overrides) {
    HEADROOM_ASSIGN(Override parsed, parse_override(text, "--set"));
    overrides.push_back(std::move(parsed));
  }
  // One YAML file whose changes are plain values: patched where they stand.
  bool plain = read.input.files.size() == 1 && read.input.files.front().document.is_map();
  for (const Override& wanted : overrides)
    plain = plain && wanted.kind != Override::Kind::remove && !wanted.value.is_map();
  std::vector<Setting> changes;
  Document document = Document::map();
  std::string text;
  if (plain) {
    text = std::string(without_header(read.input.files.front().text));
    HEADROOM_ASSIGN(document, parse_document(text, read.input.files.front().path));
    for (const Override& wanted : overrides) changes.push_back({wanted.key, format_value(wanted.value)});
  } else {
    for (const JobInput::File& file : read.input.files) {
      if (file.document.is_map()) {
        lay_over(document, file.document);
        continue;
      }
      HEADROOM_ASSIGN(const std::vector<ChangeOfKey> list, changes_of_keys(file));
      for (const ChangeOfKey& wanted : list)
        if (wanted.open.empty()) HEADROOM_TRY(change(document, wanted.change));
    }
    for (const Override& wanted : overrides) HEADROOM_TRY(change(document, wanted));
    text = write_yaml(document);
    HEADROOM_ASSIGN(document, parse_document(text, "written"));
  }
  changes.insert(changes.end(), settings.begin(), settings.end());
  HEADROOM_ASSIGN(const std::string patched, patch_yaml(text, document, changes));
  return header_text(header) + patched;
}

}  // namespace headroom
