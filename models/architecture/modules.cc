#include "models/architecture/modules.h"

#include <string_view>
#include <unordered_set>

namespace headroom {

std::int64_t modules_of(const Architecture& model) {
  std::unordered_set<std::string_view> seen;
  for (const Tensor& tensor : model.tensors)
    for (std::size_t dot = tensor.name.find('.'); dot != std::string::npos;
         dot = tensor.name.find('.', dot + 1))
      seen.insert(std::string_view(tensor.name).substr(0, dot));
  return 1 + static_cast<std::int64_t>(seen.size()) + model.decoder.layers;
}

}  // namespace headroom
