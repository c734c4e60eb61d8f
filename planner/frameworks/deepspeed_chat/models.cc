#include "planner/frameworks/deepspeed_chat/models.h"

#include <algorithm>
#include <string_view>

#include "planner/frameworks/settings/run.h"

namespace headroom::deepspeed_chat {
namespace {

std::int64_t resized(const std::string& name, std::int64_t vocabulary) {
  const bool llama = name.find("llama") != std::string::npos || name.find("Llama") != std::string::npos;
  return ceil_div(vocabulary + (llama && vocabulary == 32000), 8) * 8;
}

}  // namespace

std::shared_ptr<const Architecture> model_of(Values& values, const std::string& key, const std::string& path,
                                             HeadKind head, const std::string& base, const Document& stated) {
  ModelRequest request;
  request.name = path;
  request.base = base;
  request.head = head;
  request.values = stated;
  std::shared_ptr<const Architecture> model = settings::model_at(values, key, request);
  if (model == nullptr) return model;
  const std::int64_t rows = resized(path, model->decoder.vocabulary);
  if (rows == model->decoder.vocabulary) return model;
  request.overrides = Document::map();
  request.overrides.set("vocab_size", Document::scalar(std::to_string(rows)));
  return settings::model_at(values, key, request);
}

std::vector<std::string> adapted_modules(const Architecture& model, const std::string& scope) {
  std::vector<std::string> out;
  for (const Tensor& tensor : model.tensors) {
    if (tensor.layer < 0 || tensor.shape.size() != 2 || tensor.transposed || tensor.buffer) continue;
    std::string_view module = tensor.name;
    if (!module.ends_with(".weight") || module.find(scope) == std::string_view::npos) continue;
    module.remove_suffix(std::string_view(".weight").size());
    std::string last(module.substr(module.rfind('.') + 1));
    if (std::find(out.begin(), out.end(), last) == out.end()) out.push_back(std::move(last));
  }
  return out;
}

}  // namespace headroom::deepspeed_chat
