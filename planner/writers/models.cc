#include "planner/writers/models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "models/architecture/family.h"
#include "models/presets/presets.h"
#include "planner/writers/columns.h"

namespace headroom::writers {
namespace {

using Json = nlohmann::ordered_json;
using Align = Columns::Align;

/// `model.layers.*.mlp.up_proj.weight`: every component that is a number becomes `*`.
std::string pattern_of(std::string_view name) {
  std::string out;
  for (size_t at = 0; at <= name.size();) {
    const size_t dot = std::min(name.find('.', at), name.size());
    const std::string_view part = name.substr(at, dot - at);
    const bool index = at > 0 && dot < name.size() && !part.empty() &&
                       part.find_first_not_of("0123456789") == std::string_view::npos;
    if (at > 0) out += '.';
    out += index ? std::string_view("*") : part;
    at = dot + 1;
  }
  return out;
}

/// Tensors that differ in their index only.
struct Alike {
  std::string name;
  const Tensor* tensor;
  std::string tied_to;
  std::int64_t count = 0;
};

std::vector<Alike> alike(const Architecture& model) {
  std::vector<Alike> out;
  std::map<std::pair<std::string, std::vector<std::int64_t>>, size_t> known;
  for (const Tensor& tensor : model.tensors) {
    std::string name = pattern_of(tensor.name);
    const auto [at, fresh] = known.try_emplace({name, tensor.shape}, out.size());
    if (fresh) out.push_back({std::move(name), &tensor, pattern_of(tensor.tied_to)});
    ++out[at->second].count;
  }
  return out;
}

Bytes weight_bytes(const Architecture& model) {
  Bytes sum = 0;
  for (const Tensor& tensor : model.tensors)
    if (tensor.tied_to.empty()) sum += bytes_of(tensor.dtype, tensor.count());
  return sum;
}

std::string with_commas(std::int64_t value) {
  std::string digits = std::to_string(value);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string remark(const Alike& row) {
  if (!row.tied_to.empty()) return "tied to " + row.tied_to;
  if (row.tensor->buffer) return "buffer";
  return row.tensor->trainable ? "" : "frozen";
}

}  // namespace

std::string model_list_table() {
  std::string out = "Families:";
  for (const Family* family : families()) out += fmt::format(" {}", family->name);
  Columns columns({Align::left, Align::left, Align::right});
  columns.add({"model", "family", "parameters"});
  for (const Preset& preset : presets()) {
    const Document* family = preset.config.find("model_type");
    const std::string parameters = preset.parameters > 0 ? with_commas(preset.parameters) : "";
    for (const std::string& name : preset.names)
      columns.add({name, family == nullptr ? "" : family->text(), parameters});
  }
  return out + "\n\n" + columns.text();
}

std::string model_list_json() {
  Json names = Json::array();
  for (const Family* family : families()) names.push_back(family->name);
  Json models = Json::array();
  for (const Preset& preset : presets()) {
    const Document* family = preset.config.find("model_type");
    for (const std::string& name : preset.names)
      models.push_back({{"name", name},
                        {"family", family == nullptr ? "" : family->text()},
                        {"parameters", preset.parameters > 0 ? Json(preset.parameters) : Json()},
                        {"source", preset.source}});
  }
  const Json out = {{"schema", "headroom.models/1"}, {"families", names}, {"models", models}};
  return out.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string model_table(const Architecture& model, const KvCache& cache) {
  const Bytes token = kv_bytes_per_token(model.decoder, cache);
  std::string out = fmt::format("{} ({}, {})\n", model.source, model.family, name(model.dtype));
  Columns totals({Align::left, Align::right, Align::left});
  totals.add({"parameters", with_commas(model.parameters())});
  totals.add({"trainable", with_commas(model.trainable_parameters())});
  totals.add({"weights", format_bytes(weight_bytes(model)), fmt::format("{} bytes", weight_bytes(model))});
  totals.add(
      {"KV cache a token", format_bytes(token), fmt::format("{} bytes, {}", token, name(cache.dtype))});
  out += totals.text() + "\n";
  Columns columns({Align::left, Align::left, Align::right, Align::left, Align::left});
  columns.add({"tensor", "shape", "count", "dtype"});
  for (const Alike& row : alike(model))
    columns.add({row.name, fmt::format("[{}]", fmt::join(row.tensor->shape, ", ")), std::to_string(row.count),
                 std::string(name(row.tensor->dtype)), remark(row)});
  return out + columns.text();
}

std::string model_json(const Architecture& model, const KvCache& cache) {
  Json tensors = Json::array(), buffers = Json::array();
  for (const Alike& row : alike(model)) {
    Json entry = {{"name", row.name},
                  {"shape", row.tensor->shape},
                  {"count", row.count},
                  {"dtype", name(row.tensor->dtype)}};
    if (row.tensor->buffer) {
      buffers.push_back(std::move(entry));
      continue;
    }
    entry["tied_to"] = row.tied_to.empty() ? Json() : Json(row.tied_to);
    entry["trainable"] = row.tensor->trainable;
    tensors.push_back(std::move(entry));
  }
  const Json out = {{"schema", "headroom.models/1"},
                    {"model", model.source},
                    {"family", model.family},
                    {"total_parameters", model.parameters()},
                    {"trainable_parameters", model.trainable_parameters()},
                    {"weight_bytes", weight_bytes(model)},
                    {"kv_bytes_per_token", kv_bytes_per_token(model.decoder, cache)},
                    {"tensors", tensors},
                    {"buffers", buffers}};
  return out.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace headroom::writers
