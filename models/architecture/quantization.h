#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/architecture/architecture.h"
#include "models/architecture/config.h"

namespace headroom {

enum class QuantizationKind {
  four_bit,   ///< bitsandbytes nf4 or fp4: blocks of 64 elements with a scale each
  int8,       ///< bitsandbytes LLM.int8(): a scale for each row
  fp8_block,  ///< fp8 with a scale for each block of rows × columns (DeepSeek-V3), or for the whole matrix
  fp8_row,    ///< fp8 with a scale for each row (fbgemm, compressed-tensors)
  mxfp4,      ///< GPT-OSS: routed experts in fp4, an 8-bit scale for each 32 inputs
};

/// How weights are stored narrower than the model's dtype.
struct Quantization {
  QuantizationKind kind = QuantizationKind::four_bit;
  DType dtype = DType::nf4;
  bool double_quant = false;                           ///< four_bit: the scales in 8 bits, themselves scaled
  std::int64_t block_rows = 128, block_columns = 128;  ///< fp8_block; 0: one scale for the matrix
  std::vector<std::string> skipped{};                  ///< modules kept: names, or parts of names
};

/// The config's `quantization_config`; nothing when it has none. A method that is not modelled, or a key with
/// a value that is none, is an error that stays in the config.
std::optional<Quantization> read_quantization(Config& config);

/// Stores the weights of linears (but the head and what is skipped) as `quantization` says: their dtype
/// narrows, their shape stays that of the matrix, and their scales follow as buffers, named as checkpoints
/// name them. Stacked experts are quantised by fp8_block and mxfp4 only, as they are no linears. Quantised
/// weights are not trainable.
void quantize(Architecture& model, const Quantization& quantization);

}  // namespace headroom
