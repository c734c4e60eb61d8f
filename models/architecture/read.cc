#include "models/architecture/read.h"

#include <fmt/format.h>

#include <filesystem>

#include "models/architecture/check.h"
#include "models/architecture/family.h"
#include "models/architecture/quantization.h"

namespace headroom {
namespace {

bool ends_with_any(const std::vector<std::string>& names, std::string_view ending) {
  for (const std::string& name : names)
    if (std::string_view(name).ends_with(ending)) return true;
  return false;
}

HeadKind head_of(Config& config) {
  const auto classes = config.words("architectures").value_or(std::vector<std::string>{});
  if (ends_with_any(classes, "ForSequenceClassification")) return HeadKind::sequence_classification;
  if (ends_with_any(classes, "ForTokenClassification")) return HeadKind::token_classification;
  return HeadKind::language_model;
}

std::int64_t labels_of(Config& config, const Document& document) {
  const Document* names = document.find("id2label");
  const bool named = names != nullptr && names->is_map() && !names->entries().empty();
  return config.size("num_labels", named ? static_cast<std::int64_t>(names->entries().size()) : 2);
}

/// `dtype`, or `torch_dtype` as it was called; in the nested text config when the outer one has none.
DType dtype_of(Config& config) {
  Config text = config.section("text_config");
  Config& holder = config.has({"dtype", "torch_dtype"}) ? config : text;
  const std::string word = holder.text({"dtype", "torch_dtype"}, "fp32");
  const auto dtype = parse_dtype(word);
  if (!dtype)
    holder.reject({"dtype", "torch_dtype"},
                  fmt::format("expected a dtype such as bfloat16, found {}", word.substr(0, 80)));
  return dtype.value_or(DType::fp32);
}

std::string unknown_family(const std::string& name) {
  const std::string near = nearest_family(name);
  const std::string hint = near.empty() ? "" : fmt::format(" (did you mean {}?)", near);
  return fmt::format("expected a known model family, found {}{}; docs/ADD_A_FAMILY.md says how to add one",
                     name.substr(0, 80), hint);
}

}  // namespace

Result<Architecture> make_architecture(const Document& document, std::string source,
                                       const ReadOptions& options) {
  Config config(document, source);
  HEADROOM_TRY(config.status());
  const std::string name = config.text("model_type", "");
  const Family* family = find_family(name);
  if (name.empty()) config.reject("model_type", "expected the name of a model family, found none");
  if (family == nullptr) config.reject("model_type", unknown_family(name));
  HEADROOM_TRY(config.status());

  Architecture model;
  model.family = name;
  model.source = std::move(source);
  model.layer_class = family->layer_class;
  model.transformers_version = config.text("transformers_version", "");
  model.dtype = dtype_of(config);
  model.head = options.head.value_or(head_of(config));
  if (model.head == HeadKind::scalar)
    model.labels = 1;
  else if (model.head != HeadKind::language_model)
    model.labels = options.labels.value_or(labels_of(config, document));
  family->describe(config, model);
  check_sizes(config, model.decoder);
  HEADROOM_TRY(config.status());

  const auto quantization = read_quantization(config);
  TensorWriter out(model);
  family->write(out);
  if (quantization) quantize(model, *quantization);
  check_counts(config, model);
  HEADROOM_TRY(config.status());
  return model;
}

Result<Architecture> read_architecture(const std::string& path, const ReadOptions& options) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  const std::string file = folder ? (std::filesystem::path(path) / "config.json").string() : path;
  HEADROOM_ASSIGN(const Document document, read_document(file));
  return make_architecture(document, file, options);
}

}  // namespace headroom
