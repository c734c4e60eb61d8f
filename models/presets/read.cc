#include <fmt/format.h>

#include "models/presets/presets.h"

namespace headroom {
namespace {

/// One entry of a file's `presets:` list.
Result<Preset> read_preset(const Document& entry, const std::string& file) {
  const auto bad = [&](const Document& at, std::string key, std::string message) {
    return fail(Error{.message = std::move(message), .file = file, .line = at.line(), .key = std::move(key)});
  };
  const Document* names = entry.find("names");
  const Document* source = entry.find("source");
  const Document* config = entry.find("config");
  if (names == nullptr || !names->is_list() || names->items().empty())
    return bad(entry, "names", "expected a list of hub names");
  if (source == nullptr || !source->is_scalar())
    return bad(entry, "source", "expected where the values come from");
  if (config == nullptr || !config->is_map() || config->find("model_type") == nullptr)
    return bad(entry, "config", "expected the values of a config.json with its model_type");
  Preset preset{.names = {}, .source = source->text(), .config = *config};
  for (const Document& name : names->items()) preset.names.push_back(name.text());
  if (const Document* parameters = entry.find("parameters")) {
    const auto count = parameters->as_int();
    if (!count || *count <= 0)
      return bad(*parameters, "parameters",
                 fmt::format("expected a number of elements, found {}", parameters->text()));
    preset.parameters = *count;
  }
  for (const auto& [key, value] : entry.entries())
    if (key != "names" && key != "source" && key != "config" && key != "parameters")
      return bad(value, key, "expected names, source, parameters or config");
  return preset;
}

}  // namespace

Result<std::vector<Preset>> read_presets(std::span<const EmbeddedFile> files) {
  std::vector<Preset> out;
  for (const EmbeddedFile& embedded : files) {
    const std::string file(embedded.path);
    HEADROOM_ASSIGN(const Document document, parse_document(embedded.text, file));
    const Document* entries = document.find("presets");
    if (entries == nullptr || !entries->is_list())
      return fail(Error{
          .message = "expected a list of presets", .file = file, .line = document.line(), .key = "presets"});
    for (const Document& entry : entries->items()) {
      HEADROOM_ASSIGN(Preset preset, read_preset(entry, file));
      out.push_back(std::move(preset));
    }
  }
  return out;
}

}  // namespace headroom
