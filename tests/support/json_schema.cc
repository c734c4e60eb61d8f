#include "tests/support/json_schema.h"

#include <algorithm>

namespace headroom::test {
namespace {

using Json = nlohmann::json;

bool has_type(const Json& value, const std::string& type) {
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  return type == "null" && value.is_null();
}

class Checker {
 public:
  explicit Checker(const Json& root) : root_(root) {}

  std::string check(const Json& schema, const Json& value, const std::string& path) const {
    if (schema.is_boolean()) return schema.get<bool>() ? "" : path + ": not allowed";
    for (const auto& [keyword, rule] : schema.items())
      if (std::string found = keyword_violation(keyword, rule, schema, value, path); !found.empty())
        return found;
    return "";
  }

 private:
  std::string keyword_violation(const std::string& keyword, const Json& rule, const Json& schema,
                                const Json& value, const std::string& path) const {
    if (keyword == "$ref")
      return check(root_.at(Json::json_pointer(rule.get<std::string>().substr(1))), value, path);
    if (keyword == "const") return value == rule ? "" : path + ": not " + rule.dump();
    if (keyword == "enum")
      return std::find(rule.begin(), rule.end(), value) != rule.end()
                 ? ""
                 : path + ": " + value.dump() + " not in enum";
    if (keyword == "type") return type_violation(rule, value, path);
    if (keyword == "minimum") return !value.is_number() || value >= rule ? "" : path + ": below minimum";
    if (keyword == "maximum") return !value.is_number() || value <= rule ? "" : path + ": above maximum";
    if (keyword == "anyOf" || keyword == "oneOf") {
      const auto fitting = std::count_if(rule.begin(), rule.end(),
                                         [&](const Json& one) { return check(one, value, path).empty(); });
      return (keyword == "anyOf" ? fitting >= 1 : fitting == 1) ? "" : path + ": " + keyword;
    }
    if (keyword == "items") return items_violation(rule, value, path);
    if (keyword == "required") return required_violation(rule, value, path);
    if (keyword == "properties" || keyword == "additionalProperties" || keyword == "propertyNames")
      return keyword == "properties" && schema.contains("additionalProperties")
                 ? ""  // checked together with it
                 : object_violation(schema, value, path);
    for (const char* harmless : {"$schema", "$id", "$defs", "title", "description", "default", "examples"})
      if (keyword == harmless) return "";
    return path + ": keyword not understood: " + keyword;
  }

  static std::string type_violation(const Json& rule, const Json& value, const std::string& path) {
    const Json types = rule.is_array() ? rule : Json::array({rule});
    for (const Json& type : types)
      if (has_type(value, type.get<std::string>())) return "";
    return path + ": " + value.dump() + " is no " + rule.dump();
  }

  std::string items_violation(const Json& rule, const Json& value, const std::string& path) const {
    if (!value.is_array()) return "";
    for (std::size_t i = 0; i < value.size(); ++i)
      if (std::string found = check(rule, value[i], path + "/" + std::to_string(i)); !found.empty())
        return found;
    return "";
  }

  static std::string required_violation(const Json& rule, const Json& value, const std::string& path) {
    if (!value.is_object()) return "";
    for (const Json& key : rule)
      if (!value.contains(key.get<std::string>())) return path + ": lacks " + key.get<std::string>();
    return "";
  }

  std::string object_violation(const Json& schema, const Json& value, const std::string& path) const {
    if (!value.is_object()) return "";
    const Json empty = Json::object();
    const Json& known = schema.contains("properties") ? schema.at("properties") : empty;
    for (const auto& [key, member] : value.items()) {
      const std::string place = path + "/" + key;
      if (schema.contains("propertyNames"))
        if (std::string found = check(schema.at("propertyNames"), key, place); !found.empty()) return found;
      const Json rule =
          known.contains(key) ? known.at(key) : schema.value("additionalProperties", Json(true));
      if (std::string found = check(rule, member, place); !found.empty()) return found;
    }
    return "";
  }

  const Json& root_;
};

}  // namespace

std::string schema_violation(const Json& schema, const Json& value) {
  return Checker(schema).check(schema, value, "");
}

}  // namespace headroom::test
