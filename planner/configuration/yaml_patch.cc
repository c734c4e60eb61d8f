#include "planner/configuration/yaml_patch.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "planner/configuration/value_grammar.h"

namespace headroom {
namespace {

std::string_view first_part(std::string_view key) {
  return key.substr(0, key.find('.'));
}
std::string_view rest_of(std::string_view key) {
  const std::size_t dot = key.find('.');
  return dot == std::string_view::npos ? std::string_view{} : key.substr(dot + 1);
}

/// The item of a list that `part` means, by index or by the item's `name`; its position, or npos.
std::size_t item_of(const Document& list, std::string_view part) {
  const auto index = Document::scalar(std::string(part)).as_int();
  if (index)
    return *index >= 0 && *index < static_cast<std::int64_t>(list.items().size())
               ? static_cast<std::size_t>(*index)
               : std::string::npos;
  for (std::size_t i = 0; i < list.items().size(); ++i) {
    const Document* name = list.items()[i].find("name");
    if (name != nullptr && name->is_scalar() && name->text() == part) return i;
  }
  return std::string::npos;
}

Document replaced_item(const Document& list, std::size_t at, Document item) {
  Document out = Document::list(list.line());
  for (std::size_t i = 0; i < list.items().size(); ++i)
    out.append(i == at ? std::move(item) : list.items()[i]);
  return out;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// Where the value of `key:` starts in a line; npos when the line does not hold the key.
std::size_t value_start(std::string_view line, std::string_view key) {
  for (const std::string& form : {std::string(key), fmt::format("'{}'", key), fmt::format("\"{}\"", key)}) {
    for (std::size_t at = line.find(form); at != std::string_view::npos; at = line.find(form, at + 1)) {
      const bool starts = at == 0 || std::string_view(" {,-\t").find(line[at - 1]) != std::string_view::npos;
      const std::size_t colon = at + form.size();
      if (!starts || colon >= line.size() || line[colon] != ':') continue;
      if (colon + 1 < line.size() && line[colon + 1] != ' ') continue;
      return colon + 1;
    }
  }
  return std::string_view::npos;
}

/// The written form of `old` behind `start`: its length counted from there, the spaces before it apart.
std::optional<std::pair<std::size_t, std::size_t>> written_value(std::string_view line, std::size_t start,
                                                                 const Document& old) {
  std::size_t at = start;
  while (at < line.size() && line[at] == ' ') ++at;
  if (old.is_list()) {
    if (at >= line.size() || line[at] != '[') return std::nullopt;
    int depth = 0;
    for (std::size_t end = at; end < line.size(); ++end) {
      if (line[end] == '[') ++depth;
      if (line[end] == ']' && --depth == 0) return std::pair{at, end + 1 - at};
    }
    return std::nullopt;
  }
  if (old.is_null()) {
    for (std::string_view word : {"null", "Null", "NULL", "~"})
      if (line.compare(at, word.size(), word) == 0) return std::pair{at, word.size()};
    return std::pair{start, std::size_t{0}};
  }
  if (!old.is_scalar()) return std::nullopt;
  for (const std::string& form :
       {old.text(), fmt::format("'{}'", old.text()), fmt::format("\"{}\"", old.text())})
    if (!form.empty() && line.compare(at, form.size(), form) == 0) return std::pair{at, form.size()};
  return std::nullopt;
}

/// A value as YAML on one line: what write_yaml puts behind a key.
std::string inline_yaml(const Document& value) {
  Document holder = Document::map();
  holder.set("k", value);
  std::string text = write_yaml(holder);
  if (text.rfind("k: ", 0) != 0 || std::count(text.begin(), text.end(), '\n') != 1) return {};
  return text.substr(3, text.size() - 4);
}

/// Changes one key in the lines of a file; false when it can't be done line by line.
class Patcher {
 public:
  Patcher(std::string_view text, const Document& document) : lines_(lines_of(text)), document_(document) {}

  bool set(std::string_view key, const Document& value) {
    const Document* old = find_node(document_, key);
    const std::string_view name =
        key.substr(key.rfind('.') == std::string_view::npos ? 0 : key.rfind('.') + 1);
    return old != nullptr ? replace(*old, name, value) : insert(key, value);
  }

  std::string text() const {
    std::string out;
    for (const std::string& line : lines_) out += line + "\n";
    return out;
  }

 private:
  bool replace(const Document& old, std::string_view name, const Document& value) {
    const std::string written = inline_yaml(value);
    std::size_t at = static_cast<std::size_t>(old.line()) - 1;
    if (written.empty() || old.line() < 1 || at >= lines_.size()) return false;
    // A value that is left empty is placed where the next one starts: its key stands above.
    std::size_t start = value_start(lines_[at], name);
    for (int up = 0; up < 20 && start == std::string::npos && old.is_null() && at > 0; ++up)
      start = value_start(lines_[--at], name);
    if (start == std::string::npos) return false;
    std::string& line = lines_[at];
    const auto place = written_value(line, start, old);
    if (!place) return false;
    line.replace(place->first, place->second, place->second == 0 ? " " + written : written);
    return true;
  }

  /// Puts the key behind a neighbour that fits on one line: an entry of the deepest map above it that exists.
  bool insert(std::string_view key, const Document& value) {
    std::string_view above = key;
    const Document* map = nullptr;
    while (map == nullptr) {
      const std::size_t dot = above.rfind('.');
      above = dot == std::string_view::npos ? std::string_view{} : above.substr(0, dot);
      map = above.empty() ? &document_ : find_node(document_, above);
    }
    if (!map->is_map()) return false;
    Document block = Document::map();
    block.set_path(above.empty() ? key : key.substr(above.size() + 1), value);
    for (const auto& [name, entry] : map->entries()) {
      const std::size_t at = static_cast<std::size_t>(entry.line()) - 1;
      if (entry.line() < 1 || at >= lines_.size()) continue;
      const std::string& line = lines_[at];
      const std::size_t column = line.find(name + ":");
      if (column == std::string::npos || line.substr(0, column).find_first_not_of(" -") != std::string::npos)
        continue;
      if (!written_value(line, column + name.size() + 1, entry)) continue;
      add_after(at, column, write_yaml(block));
      return true;
    }
    if (!above.empty() || lines_.empty()) return false;
    add_after(lines_.size() - 1, 0, write_yaml(block));  // a new section at the end
    return true;
  }

  void add_after(std::size_t at, std::size_t indent, std::string_view block) {
    std::vector<std::string> added = lines_of(block);
    for (std::string& line : added) line.insert(0, std::string(indent, ' '));
    lines_.insert(lines_.begin() + static_cast<std::ptrdiff_t>(at) + 1, added.begin(), added.end());
  }

  std::vector<std::string> lines_;
  const Document& document_;
};

/// Equal whatever the order of a map's entries.
bool same_values(const Document& a, const Document& b) {
  if (a.kind() != b.kind()) return false;
  if (a.is_scalar()) return a.text() == b.text();
  if (a.is_list()) {
    if (a.items().size() != b.items().size()) return false;
    for (std::size_t i = 0; i < a.items().size(); ++i)
      if (!same_values(a.items()[i], b.items()[i])) return false;
    return true;
  }
  if (a.entries().size() != b.entries().size()) return false;
  for (const auto& [key, value] : a.entries()) {
    const Document* other = b.find(key);
    if (other == nullptr || !same_values(value, *other)) return false;
  }
  return true;
}

}  // namespace

const Document* find_node(const Document& root, std::string_view key) {
  const Document* at = &root;
  while (at != nullptr && !key.empty()) {
    if (at->is_list()) {
      const std::size_t index = item_of(*at, first_part(key));
      at = index == std::string::npos ? nullptr : &at->items()[index];
    } else {
      at = at->find(first_part(key));
    }
    key = rest_of(key);
  }
  return at;
}

Status set_node(Document& root, std::string_view key, Document value) {
  const std::string_view part = first_part(key), rest = rest_of(key);
  if (root.is_list()) {
    const std::size_t index = item_of(root, part);
    if (index == std::string::npos) return fail(fmt::format("the list has no item {}", part));
    Document item = root.items()[index];
    if (rest.empty()) {
      item = std::move(value);
    } else {
      HEADROOM_TRY(set_node(item, rest, std::move(value)));
    }
    root = replaced_item(root, index, std::move(item));
    return {};
  }
  if (root.is_null()) root = Document::map(root.line());
  if (!root.is_map()) return fail(fmt::format("{} stands below a value that is no map", part));
  if (rest.empty()) {
    root.set(part, std::move(value));
    return {};
  }
  Document* below = root.find(part);
  if (below == nullptr) below = &root.set(part, Document::map());
  return set_node(*below, rest, std::move(value));
}

Document as_written(const Document& value) {
  if (value.is_scalar()) {
    const Document plain = Document::scalar(value.text());
    const bool reads_otherwise = plain.as_double().has_value() || plain.as_bool().has_value();
    return Document::scalar(value.text(), value.line(), value.quoted() && reads_otherwise);
  }
  if (value.is_list()) {
    Document out = Document::list(value.line());
    for (const Document& item : value.items()) out.append(as_written(item));
    return out;
  }
  if (!value.is_map()) return value;
  Document out = Document::map(value.line());
  for (const auto& [key, entry] : value.entries()) out.set(key, as_written(entry));
  return out;
}

Result<std::string> patch_yaml(std::string_view text, const Document& document,
                               std::span<const Setting> settings) {
  std::string out(text);
  Document now = document;
  for (const Setting& setting : settings) {
    Result<Document> value = parse_value(setting.value);
    if (!value) return fail(Error{.message = value.error().message, .file = {}, .key = setting.key});
    *value = as_written(*value);
    Document expected = now;
    if (Status set = set_node(expected, setting.key, *value); !set)
      return fail(Error{.message = set.error().message, .file = {}, .key = setting.key});
    Patcher patcher(out, now);
    const bool patched = patcher.set(setting.key, *value);
    out = patched ? patcher.text() : write_yaml(expected);
    Result<Document> again = parse_document(out, "written");
    if (!again || !same_values(*again, expected)) {
      out = write_yaml(expected);
      again = parse_document(out, "written");
      if (!again || !same_values(*again, expected))
        return fail(Error{.message = "the file can't be written back as YAML",
                          .file = {},
                          .key = setting.key,
                          .kind = Error::Kind::incomplete});
    }
    now = std::move(*again);
  }
  return out;
}

}  // namespace headroom
