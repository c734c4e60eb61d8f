#include "planner/configuration/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <unordered_set>

#include "planner/configuration/interpolation.h"

namespace headroom {
namespace {

/// The key that a value is a reference to and nothing else; empty where it is none.
std::string_view referred(const Document& value) {
  const std::string_view text = value.text();
  if (!text.starts_with("${") || text.find('}') + 1 != text.size() || text.find(':') != std::string_view::npos) return {};
  return text.substr(2, text.size() - 3);
}

const std::string kMandatory(3, '?');  // OmegaConf: a value that must be given
constexpr int kMostSteps = 10'000;
constexpr std::size_t kLongestChain = 64;

bool covers(const std::vector<std::string>& removed, std::string_view key) {
  return std::any_of(removed.begin(), removed.end(), [&](const std::string& gone) {
    return key.rfind(gone, 0) == 0 && (key.size() == gone.size() || key[gone.size()] == '.');
  });
}

std::string_view parent_of(std::string_view key) {
  const std::size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? std::string_view{} : key.substr(0, dot);
}

void erase_path(Document& root, std::string_view key) {
  const std::string_view parent = parent_of(key);
  Document* map = parent.empty() ? &root : const_cast<Document*>(root.find_path(parent));
  if (map != nullptr) map->erase(parent.empty() ? key : key.substr(parent.size() + 1));
}

}  // namespace

void lay_over(Document& base, const Document& over) {
  if (!base.is_map() || !over.is_map()) {
    base = over;
    return;
  }
  for (const auto& [key, value] : over.entries()) {
    if (Document* old = base.find(key)) {
      lay_over(*old, value);
    } else {
      base.set(key, value);
    }
  }
}

void Layers::add_file(std::string file, Document document) {
  if (!file.empty()) last_file_ = file;
  layers_.push_back({.file = std::move(file), .root = std::move(document), .removed = {}});
}

Status Layers::apply(const Override& change) {
  // One layer an origin: overrides of one file or of the command line share it.
  if (layers_.empty() || layers_.back().file != change.file || !layers_.back().root.is_map())
    layers_.push_back({.file = change.file, .root = Document::map(), .removed = {}});
  Layer& layer = layers_.back();
  open_.erase(change.key);
  const auto place = [&](std::string message) {
    return fail(
        Error{.message = std::move(message), .file = change.file, .line = change.line, .key = change.key});
  };
  if (change.kind == Override::Kind::remove) {
    erase_path(layer.root, change.key);
    layer.removed.push_back(change.key);
    return {};
  }
  const Document* old = layer.root.find_path(change.key);
  Document value = change.value;
  if (old != nullptr && old->is_map() && value.is_map()) {
    value = *old;
    lay_over(value, change.value);
  }
  for (std::string_view above = parent_of(change.key); !above.empty(); above = parent_of(above)) {
    const auto found = find(above);
    if (!found || found->value == nullptr || found->value->is_map() || found->value->is_null()) continue;
    if (found->value->is_scalar() && has_interpolation(found->value->text())) continue;
    return place(fmt::format("{} is no map, so it has no key below it", above));
  }
  if (!layer.root.set_path(change.key, std::move(value)))
    return place("a value that is no map stands in the way");
  return {};
}

std::optional<Layers::Raw> Layers::find(std::string_view key) const {
  const auto look = [&](const Layer& layer) -> std::optional<Raw> {
    const Document* at = &layer.root;
    std::size_t start = 0;
    while (true) {
      if (at->is_null() && start == 0) return std::nullopt;
      if (!at->is_map()) {
        if (at->is_list()) {  // a.0.b
          const std::size_t dot = std::min(key.find('.', start), key.size());
          const auto index = Document::scalar(std::string(key.substr(start, dot - start))).as_int();
          if (!index || *index < 0 || *index >= static_cast<std::int64_t>(at->items().size()))
            return Raw{.value = nullptr, .layer = &layer, .redirected = {}};
          at = &at->items()[static_cast<std::size_t>(*index)];
          if (dot == key.size()) return Raw{.value = at, .layer = &layer, .redirected = {}};
          start = dot + 1;
          continue;
        }
        Raw hidden{.value = nullptr, .layer = &layer, .redirected = {}};
        if (at->is_scalar()) {
          const std::string_view here = key.substr(0, start - 1);
          if (const auto target = referenced_key(at->text(), parent_of(here)))
            hidden.redirected = fmt::format("{}.{}", *target, key.substr(start));
        }
        return hidden;
      }
      const std::size_t dot = std::min(key.find('.', start), key.size());
      at = at->find(key.substr(start, dot - start));
      if (at == nullptr) return std::nullopt;
      if (dot == key.size()) return Raw{.value = at, .layer = &layer, .redirected = {}};
      start = dot + 1;
    }
  };
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    if (auto found = look(*layer)) return found;
    if (covers(layer->removed, key)) return std::nullopt;
  }
  return look(defaults_);
}

Document Layers::merged(std::string_view key) const {
  Document out = Document::map();
  const auto lay = [&](const Layer& layer) {
    if (covers(layer.removed, key)) out = Document::map();
    for (const std::string& gone : layer.removed)
      if (gone.size() > key.size() && gone.rfind(std::string(key) + ".", 0) == 0)
        erase_path(out, std::string_view(gone).substr(key.size() + 1));
    const Document* found = layer.root.find_path(key);
    if (found != nullptr) lay_over(out, *found);
  };
  lay(defaults_);
  for (const Layer& layer : layers_) lay(layer);
  return out;
}

/// Follows references from one key, remembering the way to find cycles and counting steps so that hostile
/// files end.
class Layers::Resolver {
 public:
  explicit Resolver(const Layers& layers) : layers_(layers) {
    scope_.key = [this](const std::string& key) -> Result<std::optional<Document>> {
      HEADROOM_ASSIGN(std::optional<Value> found, get(key));
      if (!found) return std::optional<Document>{};
      if (found->value.is_scalar() && found->value.text() == kMandatory)
        return fail(fmt::format("{} is mandatory and not set", key));
      return std::optional<Document>(std::move(found->value));
    };
    scope_.resolver = layers_.resolver_;
    scope_.environment = [this](const std::string& name) -> std::optional<std::string> {
      const auto given = layers_.environment_.find(name);
      if (given != layers_.environment_.end()) return given->second;
      const char* variable = std::getenv(name.c_str());
      if (variable == nullptr) return std::nullopt;
      return std::string(variable);
    };
  }

  Result<std::optional<Value>> get(std::string key) {
    const std::size_t depth = way_.size();
    Result<std::optional<Value>> result = follow(key);
    way_.resize(depth);
    return result;
  }

 private:
  Result<std::optional<Value>> follow(std::string key) {
    while (true) {
      if (++steps_ > kMostSteps)
        return fail("too many references; expected a configuration that resolves in 10,000 steps");
      if (std::find(way_.begin(), way_.end(), key) != way_.end() || way_.size() > kLongestChain)
        return cycle(key);
      way_.push_back(key);
      const std::optional<Raw> raw = layers_.find(key);
      if (!raw) return std::optional<Value>{};
      if (const std::string* what = layers_.open(key); what != nullptr && raw->value != nullptr)
        return placed(Error{.message = *what, .file = {}, .line = 0, .key = {}},
                      {.value = {}, .file = raw->layer->file, .line = raw->value->line()}, key);
      if (raw->value == nullptr) {
        if (raw->redirected.empty()) return std::optional<Value>{};
        key = raw->redirected;
        continue;
      }
      Value out;
      out.file = raw->layer->file;
      out.line = raw->value->line();
      out.given = raw->layer != &layers_.defaults_;
      Result<Document> value = resolved(raw->value->is_map() ? layers_.merged(key) : *raw->value, key);
      if (!value) return placed(std::move(value.error()), out, key);
      out.value = std::move(*value);
      return std::optional<Value>(std::move(out));
    }
  }

  Result<Document> resolved(const Document& value, const std::string& key) {
    if (++steps_ > kMostSteps)
      return fail("too many references; expected a configuration that resolves in 10,000 steps");
    if (value.is_scalar()) {
      if (!has_interpolation(value.text())) return value;
      HEADROOM_ASSIGN(Document found, interpolate(value.text(), parent_of(key), scope_));
      // A wrong value is looked for where the interpolation stands.
      if (found.is_scalar() && found.line() == 0)
        return Document::scalar(found.text(), value.line(), found.quoted());
      return found;
    }
    if (value.is_list()) {
      Document out = Document::list(value.line());
      for (const Document& item : value.items()) {
        HEADROOM_ASSIGN(Document inner, resolved(item, key + ".0"));
        out.append(std::move(inner));
      }
      return out;
    }
    if (!value.is_map()) return value;
    Document out = Document::map(value.line());
    for (const auto& [name, item] : value.entries()) {
      HEADROOM_ASSIGN(Document inner, resolved(item, key + "." + name));
      out.set(name, std::move(inner));
    }
    return out;
  }

  Result<std::optional<Value>> cycle(const std::string& key) const {
    std::string way;
    for (const std::string& step : way_) way += step + " -> ";
    if (way.size() > 400) way = way.substr(0, 400) + "… -> ";
    return fail(fmt::format("references go in a circle: {}{}", way, key));
  }

  static Result<std::optional<Value>> placed(Error error, const Value& at, const std::string& key) {
    if (error.file.empty() && error.line == 0) {
      error.file = at.file;
      error.line = at.line;
      error.key = key;
    }
    return fail(std::move(error));
  }

  const Layers& layers_;
  InterpolationScope scope_;
  std::vector<std::string> way_;
  int steps_ = 0;
};

Result<std::optional<Layers::Value>> Layers::get(std::string_view key) const {
  return Resolver(*this).get(std::string(key));
}

bool Layers::given(std::string_view key) const {
  const auto found = find(key);
  return found && found->value != nullptr && found->layer != &defaults_;
}

void Layers::locate(std::string_view key, std::string& file, int& line) const {
  for (; !key.empty(); key = parent_of(key)) {
    const auto found = find(key);
    if (!found || found->value == nullptr) continue;
    if (found->layer == &defaults_) {
      // The framework takes another key's value.
      const std::string_view other = referred(*found->value);
      if (other.empty() || other == key || !given(other)) continue;
      return locate(other, file, line);
    }
    file = found->layer->file;
    line = found->value->line();
    return;
  }
  // Nowhere: then in the file that is laid over the others, if there is one.
  if (!layers_.empty()) file = last_file_.empty() ? layers_.front().file : last_file_;
}

std::vector<Layers::Leaf> Layers::given_leaves(std::size_t most) const {
  std::vector<Leaf> out;
  std::unordered_set<std::string> seen;
  struct Open {
    const Document* map;
    std::string prefix;
  };
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    std::vector<Open> open{{&layer->root, ""}};
    std::vector<Leaf> mine;
    while (!open.empty() && out.size() + mine.size() < most) {
      const Open here = std::move(open.back());
      open.pop_back();
      for (const auto& [name, value] : here.map->entries()) {
        std::string key = here.prefix.empty() ? name : here.prefix + "." + name;
        if (value.is_map() && !value.entries().empty()) {
          open.push_back({&value, std::move(key)});
        } else if (seen.insert(key).second) {
          mine.push_back({.key = std::move(key), .value = &value, .file = &layer->file});
          if (out.size() + mine.size() >= most) break;
        }
      }
    }
    std::stable_sort(mine.begin(), mine.end(),
                     [](const Leaf& a, const Leaf& b) { return a.value->line() < b.value->line(); });
    out.insert(out.end(), std::make_move_iterator(mine.begin()), std::make_move_iterator(mine.end()));
  }
  return out;
}

}  // namespace headroom
