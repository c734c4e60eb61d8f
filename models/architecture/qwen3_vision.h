#pragma once

#include <cstdint>
#include <string_view>

#include "models/architecture/architecture.h"
#include "models/architecture/config.h"
#include "models/architecture/tensor_writer.h"

namespace headroom {

/// The tower of Qwen3-VL and Qwen3.5 out of the config's `vision_config`. `depths`: how many of its blocks
/// hand their features to the decoder's first layers (`deepstack_visual_indexes`); 0: none does.
VisionTower read_qwen3_vision(Config& config, std::string_view block_class, std::int64_t depths);

/// `model.visual.*`.
void write_qwen3_vision(TensorWriter& out, std::int64_t depths);

}  // namespace headroom
