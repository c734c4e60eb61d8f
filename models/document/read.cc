#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "models/base/input_files.h"
#include "models/document/document.h"

namespace headroom {
namespace {

struct LimitReached {
  std::string message;
  int line;
  bool syntax = false;  ///< also what the parser makes of a bracket that is not closed
};

/// Builds the tree from the parser's events. Aliases are copied from their anchor, each copy counted, so that
/// an alias bomb reaches the node limit before it reaches memory.
class Builder : public YAML::EventHandler {
 public:
  explicit Builder(const ReadLimits& limits) : limits_(limits) {}

  Document take() { return std::move(root_); }
  int first_line() const { return first_line_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (first_line_ == 0) first_line_ = line(mark);
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(Document::null(line(mark)), anchor, mark);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end())
      throw LimitReached{"an alias points at a value that encloses it", line(mark)};
    count(known->second.second, mark);
    place(known->second.first);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const bool quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    const bool null =
        !quoted && (value.empty() || value == "~" || value == "null" || value == "Null" || value == "NULL");
    if (null && !expects_key()) {
      add(Document::null(line(mark)), anchor, mark);
    } else {
      add(Document::scalar(value, line(mark), quoted), anchor, mark);
    }
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Document::list(line(mark)), anchor, mark);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Document::map(line(mark)), anchor, mark);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    Document value;
    std::string key;
    bool have_key = false;
    YAML::anchor_t anchor = 0;
    std::unordered_set<std::string> keys;  // of a map: finding one must not take linear time
    std::vector<Document> merged;          // values of `<<`, in order
    std::int64_t nodes = 1;
  };

  static int line(const YAML::Mark& mark) { return mark.line + 1; }

  bool expects_key() const {
    return !stack_.empty() && stack_.back().value.is_map() && !stack_.back().have_key;
  }

  void count(std::int64_t nodes, const YAML::Mark& mark) {
    total_ += nodes;
    for (Open& open : stack_) open.nodes += nodes;
    if (total_ > limits_.nodes)
      throw LimitReached{fmt::format("more than {} values after alias expansion", limits_.nodes), line(mark)};
  }

  void open(Document value, YAML::anchor_t anchor, const YAML::Mark& mark) {
    if (static_cast<int>(stack_.size()) >= limits_.depth)
      throw LimitReached{fmt::format("nested deeper than {} levels", limits_.depth), line(mark)};
    count(1, mark);
    if (expects_key()) throw LimitReached{"a mapping key must be a plain value", line(mark), true};
    stack_.push_back({.value = std::move(value),
                      .key = {},
                      .have_key = false,
                      .anchor = anchor,
                      .keys = {},
                      .merged = {}});
  }

  void close() {
    Open done = std::move(stack_.back());
    stack_.pop_back();
    for (const Document& base : done.merged) merge(done, base);
    if (done.anchor != 0) anchors_[done.anchor] = {done.value, done.nodes};
    place(std::move(done.value));
  }

  void add(Document value, YAML::anchor_t anchor, const YAML::Mark& mark) {
    count(1, mark);
    if (anchor != 0) anchors_[anchor] = {value, 1};
    place(std::move(value));
  }

  void place(Document value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return;
    }
    Open& parent = stack_.back();
    if (parent.value.is_list()) {
      parent.value.append(std::move(value));
    } else if (!parent.have_key) {
      if (!value.is_scalar() && !value.is_null())
        throw LimitReached{"a mapping key must be a plain value", value.line(), true};
      parent.key = value.text();
      parent.have_key = true;
    } else {
      parent.have_key = false;
      merge_or_set(parent, std::move(value));
    }
  }

  static void merge_or_set(Open& map, Document value) {
    if (map.key == "<<" && (value.is_map() || value.is_list())) {
      map.merged.push_back(std::move(value));
      return;
    }
    if (!map.keys.insert(map.key).second) {
      const Document* first = map.value.find(map.key);
      throw LimitReached{fmt::format("expected a key once, found '{}' in line {} too", map.key.substr(0, 80),
                                     first == nullptr ? 0 : first->line()),
                         value.line()};
    }
    if (map.keys.size() > kMostKeys)
      throw LimitReached{fmt::format("more than {} keys in one map", kMostKeys), value.line()};
    map.value.add_entry(map.key, std::move(value));
  }

  /// `<<: *base` and `<<: [*base, *other]` bring the entries of maps, those already present winning.
  static void merge(Open& map, const Document& base) {
    for (const Document& one : base.items())
      if (one.is_map()) merge(map, one);
    for (const auto& [name, inherited] : base.entries())
      if (map.keys.insert(name).second) map.value.add_entry(name, inherited);
  }

  /// Maps are looked through in the order of the file: what lays one over another takes the square of its keys.
  static constexpr std::size_t kMostKeys = 10'000;

  ReadLimits limits_;
  Document root_;
  std::vector<Open> stack_;
  std::unordered_map<YAML::anchor_t, std::pair<Document, std::int64_t>> anchors_;
  std::int64_t total_ = 0;
  int first_line_ = 0;
};

/// Depth of brackets outside quotes: the parser recurses over it, so it is bounded before parsing.
/// Where it passes the limit, or the text's end.
std::size_t deep_brackets(std::string_view text, int limit) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[' || text[i] == '{') {
      if (++depth > limit) return i;
    } else if (text[i] == ']' || text[i] == '}') {
      depth = std::max(0, depth - 1);
    }
  }
  return text.size();
}

/// Block nesting (`- - - -`, indentation) recurses too: a line indented or dashed deeper than this is
/// refused. Where it begins, or the text's end.
std::size_t deep_indent(std::string_view text, int limit) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    int markers = 0;
    for (size_t i = at; i < end && (text[i] == ' ' || text[i] == '-' || text[i] == '?' || text[i] == ':');
         ++i)
      if (text[i] != ' ') ++markers;
    if (markers > limit) return at;
    at = end + 1;
  }
  return text.size();
}

int line_of(std::string_view text, std::size_t at) {
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

/// What a message should call it: JSON is read as the YAML that it is.
bool meant_as_json(std::string_view text, const std::string& file) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return file.ends_with(".json") || (first != std::string_view::npos && text[first] == '{');
}

}  // namespace

Result<Document> parse_document(std::string_view text, const std::string& file, const ReadLimits& limits) {
  const auto bad = [&](std::string message, int line) {
    return fail(Error{.message = std::move(message), .file = file, .line = line, .key = {}});
  };
  if (static_cast<std::int64_t>(text.size()) > limits.bytes)
    return bad(fmt::format("expected at most {}, found {}", limits.bytes, text.size()), 0);
  if (text.find('\0') != std::string_view::npos)
    return bad("expected YAML or JSON text, found binary data", line_of(text, text.find('\0')));
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    return bad("expected YAML or JSON, found an empty file", 0);
  if (const std::size_t at = std::min(deep_brackets(text, limits.depth * 4), deep_indent(text, limits.depth));
      at < text.size())
    return bad(fmt::format("nested deeper than {} levels", limits.depth), line_of(text, at));
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    Builder builder(limits);
    if (!parser.HandleNextDocument(builder)) return bad("expected YAML or JSON, found only comments", 0);
    Builder more(limits);
    if (parser.HandleNextDocument(more))
      return bad("expected one YAML document, found a second (after `---`); keep one", more.first_line());
    return builder.take();
  } catch (const LimitReached& limit) {
    if (limit.syntax && meant_as_json(text, file))
      return bad("not valid JSON: " + limit.message + ", or a bracket is not closed (a file cut short?)",
                 limit.line);
    return bad(limit.message, limit.line);
  } catch (const YAML::Exception& error) {
    return bad(fmt::format("not valid {}: {}", meant_as_json(text, file) ? "JSON" : "YAML", error.msg),
               error.mark.line + 1);
  }
}

Result<std::string> read_text(const std::string& path, std::int64_t most) {
  const auto bad = [&](std::string message) {
    return fail(Error{.message = std::move(message), .file = path, .key = {}});
  };
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  if (!std::filesystem::exists(status)) return bad("no such file");
  if (std::filesystem::is_directory(status)) return bad("expected a file, found a directory");
  const auto size = std::filesystem::is_regular_file(status) ? std::filesystem::file_size(path, code) : 0;
  if (!code && static_cast<std::int64_t>(size) > most)
    return bad(fmt::format("expected at most {} MiB, found {} MiB", most >> 20, size >> 20));
  std::ifstream file(path, std::ios::binary);
  if (!file) return bad("cannot be read (permission?)");
  note_input(path);
  std::string text;
  std::string block(1 << 16, '\0');
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    text.append(block.data(), static_cast<size_t>(file.gcount()));
    if (static_cast<std::int64_t>(text.size()) > most)
      return bad(fmt::format("expected at most {} MiB", most >> 20));
  }
  return text;
}

Result<Document> read_document(const std::string& path, const ReadLimits& limits) {
  HEADROOM_ASSIGN(const std::string text, read_text(path, limits.bytes));
  return parse_document(text, path, limits);
}

}  // namespace headroom
