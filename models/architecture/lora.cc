#include "models/architecture/lora.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "models/architecture/lora_defaults.h"

namespace headroom {
namespace {

tl::unexpected<Error> bad(const char* key, std::string message) {
  return fail(Error{.message = std::move(message), .file = {}, .key = key});
}

std::string_view module_of(const Tensor& tensor) {
  const std::string_view name = tensor.name;
  return name.substr(0, name.rfind('.'));
}

/// `part` is `name`, or its end after a dot.
bool is_suffix(std::string_view name, std::string_view part) {
  return name.ends_with(part) && (name.size() == part.size() || name[name.size() - part.size() - 1] == '.');
}

/// `part` is `name`, or a run of its dotted components.
bool is_part(std::string_view name, std::string_view part) {
  for (size_t at = name.find(part); at != std::string_view::npos; at = name.find(part, at + 1)) {
    const size_t end = at + part.size();
    if ((at == 0 || name[at - 1] == '.') && (end == name.size() || name[end] == '.')) return true;
  }
  return false;
}

bool matches_any(std::string_view module, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return is_suffix(module, name); });
}

bool all_linear(const LoraSpec& spec) {
  return spec.targets.size() == 1 && spec.targets[0] == "all-linear";
}

bool is_classifier(const Architecture& model) {
  return model.head == HeadKind::sequence_classification || model.head == HeadKind::token_classification;
}

Tensor beside(const Tensor& base, std::string name, std::vector<std::int64_t> shape, DType dtype,
              Split split) {
  Tensor tensor = base;
  tensor.name = std::move(name);
  tensor.shape = std::move(shape);
  tensor.dtype = dtype;
  tensor.tied_to.clear();
  tensor.split = split;
  tensor.transposed = false;
  tensor.trainable = true;
  return tensor;
}

void add_adapter(std::vector<Tensor>& out, const Tensor& base, const LoraSpec& spec) {
  const std::string module(module_of(base));
  const std::int64_t rank = spec.rank;
  if (base.role == TensorRole::embedding) {
    out.push_back(beside(base, module + ".lora_embedding_A.default", {rank, base.shape[0]}, spec.dtype,
                         Split::replicated));
    out.push_back(beside(base, module + ".lora_embedding_B.default", {base.shape[1], rank}, spec.dtype,
                         Split::replicated));
    return;
  }
  const std::int64_t rows = base.transposed ? base.shape[1] : base.shape[0];
  const std::int64_t columns = base.transposed ? base.shape[0] : base.shape[1];
  const bool by_rows = base.split == Split::row;
  out.push_back(beside(base, module + ".lora_A.default.weight", {rank, columns}, spec.dtype,
                       by_rows ? Split::row : Split::replicated));
  out.push_back(beside(base, module + ".lora_B.default.weight", {rows, rank}, spec.dtype,
                       by_rows ? Split::replicated : base.split));
}

/// The tensors with adapters in place; counts what matched.
std::vector<Tensor> with_adapters(const Architecture& model, const LoraSpec& spec,
                                  const std::vector<std::string>& saved, std::int64_t& adapters,
                                  std::int64_t& copies) {
  std::vector<Tensor> out;
  out.reserve(model.tensors.size() * 2);
  for (const Tensor& tensor : model.tensors) {
    out.push_back(tensor);
    out.back().trainable = false;
    if (tensor.buffer) continue;
    const std::string_view module = module_of(tensor);
    if (matches_any(module, saved)) {
      const std::string_view leaf = std::string_view(tensor.name).substr(module.size());
      out.push_back(beside(tensor, fmt::format("{}.modules_to_save.default{}", module, leaf), tensor.shape,
                           tensor.dtype, tensor.split));
      out.back().transposed = tensor.transposed;
      ++copies;
    } else if (takes_adapter(model, tensor, spec)) {
      add_adapter(out, tensor, spec);  // not out.back(), which moves when the list grows
      ++adapters;
    }
  }
  return out;
}

}  // namespace

bool takes_adapter(const Architecture& model, const Tensor& tensor, const LoraSpec& spec) {
  if (tensor.buffer) return false;
  if (!all_linear(spec))
    return (tensor.role == TensorRole::linear || tensor.role == TensorRole::embedding) &&
           matches_any(module_of(tensor), spec.targets);
  if (tensor.role != TensorRole::linear) return false;
  const bool excluded =
      model.head == HeadKind::language_model || model.head == HeadKind::sequence_classification;
  return !(excluded && tensor.place == Place::head);
}

Status add_lora(Architecture& model, const LoraSpec& asked) {
  LoraSpec spec = asked;
  if (spec.rank < 1) return bad("rank", fmt::format("expected a rank of at least 1, found {}", spec.rank));
  HEADROOM_ASSIGN(spec.targets, lora_targets(asked.targets, model.family, "target_modules"));
  std::vector<std::string> saved = spec.saved_modules;
  if (is_classifier(model)) saved.insert(saved.end(), {"score", "classifier"});

  std::int64_t adapters = 0, copies = 0;
  std::vector<Tensor> tensors = with_adapters(model, spec, saved, adapters, copies);
  if (adapters == 0)
    return bad("target_modules", fmt::format("expected names of linear modules of {}, found {}", model.family,
                                             fmt::join(spec.targets, ", ")));
  if (!spec.saved_modules.empty() && copies == 0)
    return bad("modules_to_save", fmt::format("expected names of modules of {}, found {}", model.family,
                                              fmt::join(spec.saved_modules, ", ")));
  model.tensors = std::move(tensors);
  return {};
}

Status freeze(Architecture& model, const std::vector<std::string>& modules) {
  for (const std::string& name : modules) {
    bool found = false;
    for (Tensor& tensor : model.tensors) {
      if (!is_part(module_of(tensor), name)) continue;
      tensor.trainable = false;
      found = true;
    }
    if (!found) return bad("freeze", fmt::format("expected a module of {}, found {}", model.family, name));
  }
  return {};
}

}  // namespace headroom
