#pragma once

#include <string>

#include "models/architecture/architecture.h"
#include "models/architecture/config.h"
#include "models/architecture/tensor_writer.h"

namespace headroom {

/// Qwen2's decoder with the defaults of Qwen's vision models; its keys stand under `text_config`, or at the
/// top as before Transformers 4.52.
void describe_qwen_vl_text(Config& config, Architecture& model);

/// `model.language_model` and `lm_head`.
void write_qwen_vl_text(TensorWriter& out);

/// `model.visual` before its merger: patches, and blocks of two norms, fused attention and what `mlp` writes;
/// then the merger, which joins merge² patches into one token of the decoder.
void write_qwen_vision(TensorWriter& out, void (*mlp)(TensorWriter& out, const VisionTower& tower));

}  // namespace headroom
