#include <fmt/format.h>

#include "planner/frameworks/engines/facts.h"
#include "planner/frameworks/job/file.h"
#include "planner/frameworks/job/traits.h"
#include "planner/frameworks/registry.h"
#include "simulator/job/loop_kind.h"

namespace headroom::jobfile {
namespace {

Document text(const std::string& value) {
  const Document plain = Document::scalar(value);
  const bool reads_otherwise = plain.as_double().has_value() || plain.as_bool().has_value();
  return Document::scalar(value, 0, reads_otherwise);
}

/// A size in the largest unit that holds it exactly.
std::string exact_size(Bytes bytes) {
  if (bytes != 0 && bytes % kGiB == 0) return fmt::format("{}GiB", bytes / kGiB);
  if (bytes != 0 && bytes % kMiB == 0) return fmt::format("{}MiB", bytes / kMiB);
  return fmt::format("{}B", bytes);
}

template <typename Struct>
Document write_object(const Struct& object, const Struct& fallback);

/// What an item of a list is where the file says nothing: engines follow their release.
template <typename Item>
Item unstated(const Item&) {
  return Item{};
}
Engine unstated(const Engine& engine) {
  Engine out;
  out.kind = engine.kind;
  out.model = engine.model;
  out.weights = engine.weights;
  out.lora_slots = engine.lora_slots;
  engines::set_release(out, engine.release);
  out.lora_slots = 0;
  out.release.clear();  // written, so that it is read again
  out.weights = Engine{}.weights;
  // Limits follow the card: always written.
  out.max_sequences = out.max_batched_tokens = 0;
  return out;
}

template <typename T>
Document write_value(const T& value, const T& fallback, const Info& info) {
  if constexpr (is_optional<T>) {
    using Inner = typename T::value_type;
    return value ? write_value(*value, fallback.value_or(Inner{}), info) : Document::null();
  } else if constexpr (Described<T>) {
    return write_object(value, fallback);
  } else if constexpr (is_list<T>) {
    using Item = typename T::value_type;
    Document out = Document::list();
    for (const Item& item : value) out.append(write_value(item, unstated(item), info));
    return out;
  } else if constexpr (std::is_same_v<T, bool>) {
    return Document::scalar(value ? "true" : "false");
  } else if constexpr (std::is_same_v<T, const LoopKind*>) {
    return text(std::string(value == nullptr ? kPlainLoop : value->name));
  } else if constexpr (std::is_enum_v<T>) {
    return Document::scalar(std::string(enum_name(value)));
  } else if constexpr (std::is_arithmetic_v<T>) {
    if constexpr (std::is_integral_v<T>)
      if (info.unit == Unit::bytes) return Document::scalar(exact_size(value));
    return Document::scalar(fmt::format("{}", value));
  } else {
    return text(value);
  }
}

template <typename Struct>
class ObjectWriter {
 public:
  ObjectWriter(const Struct& object, const Struct& fallback) : object_(object), fallback_(fallback) {}

  template <typename T>
  void field(const Info& info, T Struct::*member) {
    if (!info.required && object_.*member == fallback_.*member) return;
    out_.set(info.name, write_value(object_.*member, fallback_.*member, info));
  }
  void model(const Info& info, std::string Struct::*name, std::shared_ptr<const Architecture> Struct::*) {
    out_.set(info.name, text(object_.*name));
  }
  void parts(const Info& info, unsigned Struct::*member) {
    if (object_.*member == 0) return;
    Document list = Document::list();
    for (const auto& [part, name] : kParts)
      if ((object_.*member & part) != 0) list.append(Document::scalar(std::string(name)));
    out_.set(info.name, std::move(list));
  }

  Document take() { return std::move(out_); }

 private:
  const Struct& object_;
  const Struct& fallback_;
  Document out_ = Document::map();
};

template <typename Struct>
Document write_object(const Struct& object, const Struct& fallback) {
  ObjectWriter<Struct> writer(object, fallback);
  Fields<Struct>::visit(writer);
  return writer.take();
}

}  // namespace

Document write_job_file(const Job& job) {
  Document out = Document::map();
  out.set(kFormatKey, Document::scalar(std::string(kFormat)));
  Document fields = write_object(job, Job{});
  // Left out, it would be the owner's.
  Document roles = Document::list();
  for (std::size_t i = 0; i < job.roles.size(); ++i) {
    Document role = fields.find("roles")->items()[i];
    if (!job.roles[i].shares_weights_of.empty()) role.set("loss", write_object(job.roles[i].loss, LossSpec{}));
    roles.append(std::move(role));
  }
  fields.set("roles", std::move(roles));
  for (const auto& [key, value] : fields.entries()) out.set(key, value);
  return out;
}

}  // namespace headroom::jobfile
