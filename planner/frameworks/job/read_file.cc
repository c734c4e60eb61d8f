#include <fmt/format.h>

#include <optional>

#include "models/base/nearest.h"
#include "planner/configuration/model_lookup.h"
#include "planner/configuration/yaml_patch.h"
#include "planner/frameworks/engines/facts.h"
#include "planner/frameworks/job/file.h"
#include "planner/frameworks/job/traits.h"
#include "planner/frameworks/registry.h"
#include "simulator/hardware/library.h"
#include "simulator/job/loop_kind.h"
#include "simulator/job/standard_step.h"

namespace headroom::jobfile {
namespace {

/// Where an error is, and the first one met: fields are read to the end without checks between them. A field
/// that is missing is told only when nothing else is wrong: a misspelt name explains it better.
struct Context {
  std::string file;
  std::optional<Error> error, missing;

  void fail_at(const std::string& key, int line, std::string message) {
    if (!error) error = Error{.message = std::move(message), .file = file, .line = line, .key = key};
  }
  void lacks(const std::string& key, int line) {
    if (!missing)
      missing = Error{.message = "is required and missing", .file = file, .line = line, .key = key};
  }
  void mismatch(const std::string& key, const Document& found, const std::string& expected) {
    const std::string shown = found.is_scalar() ? found.text().substr(0, 80)
                              : found.is_map()  ? "a map"
                              : found.is_list() ? "a list"
                                                : "null";
    fail_at(key, found.line(), fmt::format("expected {}, found {}", expected, shown));
  }
};

template <typename Struct>
void read_object(const Document& map, Struct& object, const std::string& path, Context& context);

template <typename T>
void read_value(const Document& value, T& out, const Info& info, const std::string& path, Context& context) {
  if constexpr (is_optional<T>) {
    typename T::value_type inner{};
    read_value(value, inner, info, path, context);
    out = std::move(inner);
  } else if constexpr (Described<T>) {
    if (!value.is_map()) return context.mismatch(path, value, "a map");
    read_object(value, out, path, context);
  } else if constexpr (is_list<T>) {
    if (!value.is_list()) return context.mismatch(path, value, "a list");
    out.clear();
    for (const Document& item : value.items()) {
      typename T::value_type inner{};
      read_value(item, inner, info, fmt::format("{}.{}", path, out.size()), context);
      out.push_back(std::move(inner));
    }
  } else if constexpr (std::is_same_v<T, bool>) {
    const auto flag = value.as_bool();
    if (!flag) return context.mismatch(path, value, "true or false");
    out = *flag;
  } else if constexpr (std::is_same_v<T, const LoopKind*>) {
    out = nullptr;
    if (value.is_scalar() && value.text() == kPlainLoop) return;
    std::string words(kPlainLoop);
    for (const LoopKind* loop : loops()) {
      if (value.is_scalar() && value.text() == loop->name) out = loop;
      words += ", " + std::string(loop->name);
    }
    if (out == nullptr) context.mismatch(path, value, "one of " + words);
  } else if constexpr (std::is_enum_v<T>) {
    const auto word = value.is_scalar() ? enum_from<T>(value.text()) : std::nullopt;
    if (word) {
      out = *word;
      return;
    }
    std::string words;
    for (const auto& [known, name] : enum_names<T>())
      words += (words.empty() ? "" : ", ") + std::string(name);
    context.mismatch(path, value, "one of " + words);
  } else if constexpr (std::is_integral_v<T>) {
    std::optional<std::int64_t> number = value.as_int();
    std::string expected = fmt::format("an integer from {} to {}", info.least, info.most);
    if (info.unit == Unit::bytes) {
      expected = "a size with its unit, such as 2GiB or 512MiB";
      const Result<Bytes> size = value.is_scalar() ? parse_bytes(value.text()) : Result<Bytes>(fail(""));
      number = size ? std::optional<std::int64_t>(*size) : std::nullopt;
    }
    if (!number || *number < info.least || *number > info.most)
      return context.mismatch(path, value, expected);
    out = static_cast<T>(*number);
  } else if constexpr (std::is_floating_point_v<T>) {
    const auto number = value.as_double();
    const bool fraction = info.unit == Unit::fraction;
    if (!number || (fraction && (*number < 0 || *number > 1)))
      return context.mismatch(path, value, fraction ? "a fraction from 0 to 1" : "a number");
    out = *number;
  } else {
    static_assert(std::is_same_v<T, std::string>);
    if (!value.is_scalar()) return context.mismatch(path, value, "text");
    out = value.text();
  }
}

/// Reads the fields of one map, and refuses what is no field.
template <typename Struct>
class ObjectReader {
 public:
  ObjectReader(const Document& map, Struct& object, std::string path, Context& context)
      : map_(map), object_(object), path_(std::move(path)), context_(context) {}

  template <typename T>
  void field(const Info& info, T Struct::*member) {
    if (const Document* value = find(info))
      read_value(*value, object_.*member, info, at(info.name), context_);
  }

  void model(const Info& info, std::string Struct::*name, std::shared_ptr<const Architecture> Struct::*) {
    if (const Document* value = find(info)) read_value(*value, object_.*name, info, at(info.name), context_);
  }

  void parts(const Info& info, unsigned Struct::*member) {
    const Document* value = find(info);
    if (value == nullptr) return;
    std::vector<std::string> words;
    read_value(*value, words, info, at(info.name), context_);
    for (const std::string& word : words) {
      unsigned bit = 0;
      for (const auto& [part, name] : kParts)
        if (name == word) bit = part;
      if (bit == 0)
        context_.fail_at(
            at(info.name), value->line(),
            fmt::format("expected weights, gradients, optimizer or master_weights, found {}", word));
      object_.*member |= bit;
    }
  }

  void refuse_unknown(bool root) {
    for (const auto& [key, value] : map_.entries()) {
      if (root && key == kFormatKey) continue;
      bool known = false;
      for (std::string_view name : known_) known = known || name == key;
      if (known) continue;
      const std::string near = nearest(key, known_);
      context_.fail_at(at(key), value.line(),
                       near.empty() ? "is no field of a job file"
                                    : fmt::format("is no field of a job file; did you mean {}?", near));
    }
  }

 private:
  std::string at(std::string_view name) const {
    return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
  }

  const Document* find(const Info& info) {
    known_.push_back(info.name);
    const Document* value = map_.find(info.name);
    if (value != nullptr && !value->is_null()) return value;
    if (info.required) context_.lacks(at(info.name), map_.line());
    return nullptr;
  }

  const Document& map_;
  Struct& object_;
  std::string path_;
  Context& context_;
  std::vector<std::string_view> known_;
};

template <typename Struct>
void read_object(const Document& map, Struct& object, const std::string& path, Context& context) {
  ObjectReader<Struct> reader(map, object, path, context);
  Fields<Struct>::visit(reader);
  reader.refuse_unknown(path.empty());
}

int line_of_model(const Document& document, const char* list, std::size_t index) {
  const Document* items = document.find(list);
  if (items == nullptr || index >= items->items().size()) return 0;
  const Document* model = items->items()[index].find("model");
  return model == nullptr ? 0 : model->line();
}

Status find_models(Job& job, const Document& document, const std::string& file, const std::string& base) {
  const auto find = [&](auto& item, HeadKind head, const char* list, std::size_t index) -> Status {
    Result<std::shared_ptr<const Architecture>> found =
        find_model({.name = item.model_name, .config = {}, .base = base, .head = head, .overrides = {}});
    if (!found) {
      Error error = std::move(found.error());
      if (error.file.empty())
        error = {.message = error.message,
                 .file = file,
                 .line = line_of_model(document, list, index),
                 .key = fmt::format("{}.{}.model", list, item.name)};
      return tl::unexpected<Error>(std::move(error));
    }
    item.model = std::move(*found);
    return {};
  };
  for (std::size_t i = 0; i < job.roles.size(); ++i)
    HEADROOM_TRY(find(job.roles[i], job.roles[i].head, "roles", i));
  for (std::size_t i = 0; i < job.engines.size(); ++i) {
    const bool own = job.engines[i].role.empty();  // an engine with weights of its own scores
    HEADROOM_TRY(find(job.engines[i], own ? HeadKind::scalar : HeadKind::language_model, "engines", i));
  }
  return {};
}

/// Lays what an engine's node states over what its library's release decides; sequences and tokens that
/// nobody states are the release's own for the card.
void complete_engine(const Job& job, const Document& node, Engine& engine, const std::string& path,
                     Context& context) {
  const bool vllm = engine.kind == EngineKind::vllm;
  const std::string& versions = vllm ? job.versions.vllm : job.versions.sglang;
  Engine out;
  out.kind = engine.kind;
  out.model = engine.model;
  out.weights = engine.weights;
  out.lora_slots = engine.lora_slots;
  out.max_length = engine.max_length;
  engines::set_release(out, engine.release.empty() ? versions : engine.release);
  if (const auto card = load_hardware(job.gpu); card && !out.release.empty()) {
    const engines::Limits limits = engines::default_limits(out, *card, engines::EntryPoint::server);
    out.max_sequences = limits.sequences;
    out.max_batched_tokens = limits.batched_tokens;
  }
  const std::string release = out.release;
  read_object(node, out, path, context);
  out.model = engine.model;
  out.release = release;
  engine = std::move(out);
}

/// A role that runs another one's weights forms its log-probs as that one does, unless it states how.
void inherit_losses(Job& job, const Document& document) {
  for (std::size_t i = 0; i < job.roles.size(); ++i) {
    Role& role = job.roles[i];
    const Role* owner = role.shares_weights_of.empty() ? nullptr : job.role(role.shares_weights_of);
    if (owner != nullptr && document.find("roles")->items()[i].find("loss") == nullptr) role.loss = owner->loss;
  }
}

void complete_engines(Job& job, const Document& document, Context& context) {
  const Document* nodes = document.find("engines");
  for (std::size_t i = 0; i < job.engines.size(); ++i)
    complete_engine(job, nodes->items()[i], job.engines[i], fmt::format("engines.{}", i), context);
}

}  // namespace

Result<Job> read_job_file(const Document& document, const std::string& file, const std::string& base) {
  const auto bad = [&](std::string key, int line, std::string message) {
    return fail(Error{.message = std::move(message), .file = file, .line = line, .key = std::move(key)});
  };
  if (!document.is_map()) return bad("", document.line(), "expected a map of a job's fields");
  const Document* format = document.find(kFormatKey);
  if (format == nullptr || !format->is_scalar() || format->text() != kFormat)
    return bad(std::string(kFormatKey), format == nullptr ? 1 : format->line(),
               fmt::format("expected `{}: {}`", kFormatKey, kFormat));
  Job job;
  Context context{.file = file, .error = {}, .missing = {}};
  read_object(document, job, "", context);
  if (!context.error) context.error = std::move(context.missing);
  if (context.error) return tl::unexpected<Error>(std::move(*context.error));
  inherit_losses(job, document);
  HEADROOM_TRY(find_models(job, document, file, base));
  complete_engines(job, document, context);
  if (job.pools.empty()) job.pools.push_back({});
  complete_processes(job);
  complete_step(job);
  if (Status valid = validate_job(job); !valid) {
    Error error = std::move(valid.error());
    const Document* place = nullptr;  // of the field, or of the nearest thing above it that the file states
    for (std::string at = error.key; place == nullptr && !at.empty();
         at.resize(at.find('.') == std::string::npos ? 0 : at.rfind('.')))
      place = find_node(document, at);
    return bad(error.key, place == nullptr ? document.line() : place->line(), error.message);
  }
  return job;
}

}  // namespace headroom::jobfile
