#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace headroom::test {

/// The first violation of `schema` in `value`, as `PATH: what`; empty when it conforms. Understands the part
/// of JSON Schema that Headroom's schemas use (type, const, enum, required, properties, additionalProperties,
/// propertyNames, items, $ref, minimum, maximum, anyOf, oneOf); another keyword that constrains is reported.
std::string schema_violation(const nlohmann::json& schema, const nlohmann::json& value);

}  // namespace headroom::test
