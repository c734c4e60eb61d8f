#include "planner/frameworks/lora_targets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <regex>

namespace headroom::cases {
namespace {

constexpr std::string_view kAll = "all-linear", kScalarHead = "v_head";

/// Of a language model: the one linear module that stands beside the body.
bool is_head(const std::string& module) {
  return module != kScalarHead && module.find('.') == std::string::npos;
}

std::vector<std::string> linear_modules(const Architecture& model, bool scalar) {
  std::vector<std::string> out;
  for (const Tensor& tensor : model.tensors) {
    if (tensor.role != TensorRole::linear || !tensor.name.ends_with(".weight")) continue;
    std::string module = tensor.name.substr(0, tensor.name.rfind('.'));
    if (!scalar || !is_head(module)) out.push_back(std::move(module));
  }
  if (scalar) out.emplace_back(kScalarHead);
  return out;
}

/// As the program names it: a bare body has no module of its own around its layers.
std::string shown(const std::string& module, bool scalar) {
  if (!scalar || module == kScalarHead) return module;
  return "body" + module.substr(std::min(module.find('.'), module.size()));
}

bool names(const std::string& target, const std::string& module) {
  return target == kAll || module == target || module.ends_with("." + target);
}

std::optional<std::regex> expression(const std::string& text) {
  try {
    return std::regex(text);
  } catch (const std::regex_error&) {
    return std::nullopt;
  }
}

std::string joined(const std::vector<std::string>& words, bool is_list) {
  if (words.empty()) return "an empty list";
  const std::string all = fmt::format("\"{}\"", fmt::join(words, "\", \""));
  return is_list ? "[" + all + "]" : all + ", which is matched against whole names";
}

}  // namespace

Result<LoraTargets> lora_targets(const Architecture& model, const std::vector<std::string>& words,
                                 bool is_list, bool scalar) {
  const std::vector<std::string> modules = linear_modules(model, scalar);
  const auto head = std::find_if(modules.begin(), modules.end(), is_head);
  const auto no_head = [&] {
    return fail(
        fmt::format("expected modules of the body, found the head {}, whose adapter is not modelled", *head));
  };
  LoraTargets out;
  if (is_list || (words.size() == 1 && words.front() == kAll)) {
    for (const std::string& word : words) {
      if (head != modules.end() && word != kAll && names(word, *head)) return no_head();
      (std::any_of(modules.begin(), modules.end(),
                   [&](const std::string& module) { return names(word, module); })
           ? out.names
           : out.unmatched)
          .push_back(word);
    }
    if (!out.names.empty()) return out;
  } else if (const std::optional<std::regex> wanted = expression(words.front())) {
    for (const std::string& module : modules)
      if (std::regex_match(shown(module, scalar), *wanted)) {
        if (is_head(module)) return no_head();
        out.names.push_back(module);
      }
    if (!out.names.empty()) return out;
  }
  return fail(fmt::format("expected linear modules of {}, found {}", model.family, joined(words, is_list)));
}

Result<std::vector<std::string>> without_modules(const Architecture& model, const LoraTargets& targets,
                                                 const std::vector<std::string>& excluded, bool is_list) {
  const std::optional<std::regex> unwanted = is_list ? std::nullopt : expression(excluded.front());
  if (!is_list && !unwanted) return fail("expected a regular expression, found " + excluded.front());
  std::vector<std::string> out;
  for (const std::string& module : linear_modules(model, false)) {
    const bool targeted = std::any_of(targets.names.begin(), targets.names.end(), [&](const std::string& target) {
      return names(target, module) && !(target == kAll && is_head(module));
    });
    const bool left_out = unwanted ? std::regex_match(module, *unwanted)
                                   : std::any_of(excluded.begin(), excluded.end(), [&](const std::string& name) {
                                       return module == name || module.ends_with("." + name);
                                     });
    if (targeted && !left_out) out.push_back(module);
  }
  if (out.empty()) return fail("expected names that leave modules to adapt, found " + joined(excluded, is_list));
  return out;
}

}  // namespace headroom::cases
