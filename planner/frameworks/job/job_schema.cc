#include <nlohmann/json.hpp>

#include "planner/frameworks/job/file.h"
#include "planner/frameworks/job/traits.h"
#include "planner/frameworks/registry.h"
#include "simulator/job/loop_kind.h"

namespace headroom::jobfile {
namespace {

using Json = nlohmann::ordered_json;

template <typename Struct>
Json object_schema();

template <typename T>
Json value_schema(const Info& info) {
  Json out;
  if constexpr (is_optional<T>) {
    out["anyOf"] = {value_schema<typename T::value_type>(info), Json{{"type", "null"}}};
  } else if constexpr (Described<T>) {
    out = object_schema<T>();
  } else if constexpr (is_list<T>) {
    out["type"] = "array";
    out["items"] = value_schema<typename T::value_type>(info);
  } else if constexpr (std::is_same_v<T, bool>) {
    out["type"] = "boolean";
  } else if constexpr (std::is_same_v<T, const LoopKind*>) {
    out["enum"] = {std::string(kPlainLoop)};
    for (const LoopKind* loop : loops()) out["enum"].push_back(std::string(loop->name));
  } else if constexpr (std::is_enum_v<T>) {
    out["enum"] = Json::array();
    for (const auto& [value, name] : enum_names<T>()) out["enum"].push_back(std::string(name));
  } else if constexpr (std::is_integral_v<T>) {
    if (info.unit == Unit::bytes) {
      out["type"] = "string";
      out["pattern"] = "^[0-9.]+ *([KMGT]i?)?B$";
    } else {
      out["type"] = "integer";
      out["minimum"] = info.least;
      out["maximum"] = info.most;
    }
  } else if constexpr (std::is_floating_point_v<T>) {
    out["type"] = "number";
    if (info.unit == Unit::fraction) {
      out["minimum"] = 0;
      out["maximum"] = 1;
    }
  } else {
    out["type"] = "string";
  }
  return out;
}

/// What a field is when it is left out; nested objects and lists speak for themselves.
template <typename T>
void set_default(Json& schema, const T& fallback) {
  if constexpr (std::is_same_v<T, const LoopKind*>) {
    schema["default"] = std::string(kPlainLoop);
  } else if constexpr (std::is_same_v<T, bool> || std::is_floating_point_v<T>) {
    schema["default"] = fallback;
  } else if constexpr (std::is_enum_v<T>) {
    schema["default"] = std::string(enum_name(fallback));
  } else if constexpr (std::is_integral_v<T>) {
    if (schema["type"] == "integer") schema["default"] = fallback;
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!fallback.empty()) schema["default"] = fallback;
  }
}

template <typename Struct>
class ObjectSchema {
 public:
  template <typename T>
  void field(const Info& info, T Struct::*member) {
    Json schema = value_schema<T>(info);
    if (!info.required) set_default(schema, Struct{}.*member);
    add(info, std::move(schema));
  }
  void model(const Info& info, std::string Struct::*, std::shared_ptr<const Architecture> Struct::*) {
    add(info, value_schema<std::string>(info));
  }
  void parts(const Info& info, unsigned Struct::*) {
    Json words = Json::array();
    for (const auto& [part, name] : kParts) words.push_back(std::string(name));
    add(info, {{"type", "array"}, {"items", {{"enum", words}}}});
  }

  Json take() {
    Json out{{"type", "object"}, {"additionalProperties", false}, {"properties", std::move(properties_)}};
    if (!required_.empty()) out["required"] = std::move(required_);
    return out;
  }

 private:
  void add(const Info& info, Json schema) {
    schema["description"] = std::string(info.meaning);
    properties_[std::string(info.name)] = std::move(schema);
    if (info.required) required_.push_back(std::string(info.name));
  }

  Json properties_ = Json::object();
  Json required_ = Json::array();
};

template <typename Struct>
Json object_schema() {
  ObjectSchema<Struct> schema;
  Fields<Struct>::visit(schema);
  return schema.take();
}

}  // namespace

std::string job_schema() {
  Json out{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
           {"$id", "headroom.job/1"},
           {"title", "A Headroom job"}};
  Json fields = object_schema<Job>();
  Json properties{
      {std::string(kFormatKey), {{"const", std::string(kFormat)}, {"description", "the format"}}}};
  properties.update(fields["properties"]);
  fields["properties"] = std::move(properties);
  fields["required"].insert(fields["required"].begin(), std::string(kFormatKey));
  out.update(fields);
  return out.dump(2) + "\n";
}

}  // namespace headroom::jobfile
