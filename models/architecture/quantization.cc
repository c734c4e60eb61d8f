#include "models/architecture/quantization.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "models/base/bytes.h"

namespace headroom {
namespace {

constexpr std::int64_t kBlock = 64;         // elements under one bitsandbytes scale
constexpr std::int64_t kNestedBlock = 256;  // scales under one scale of scales
constexpr std::int64_t kMxBlock = 32;       // elements under one mxfp4 scale

constexpr Key kConvert{"modules_to_not_convert", "llm_int8_skip_modules", "ignore", "ignored_layers"};

Quantization read_bitsandbytes(Config& section) {
  Quantization out;
  if (section.flag({"load_in_8bit", "_load_in_8bit"}, false)) {
    out.kind = QuantizationKind::int8;
    out.dtype = DType::int8;
    return out;
  }
  if (!section.flag({"load_in_4bit", "_load_in_4bit"}, false))
    section.reject("load_in_4bit", "expected load_in_4bit or load_in_8bit to be true, found neither");
  const std::string type = section.text("bnb_4bit_quant_type", "fp4");
  if (type != "nf4" && type != "fp4")
    section.reject("bnb_4bit_quant_type", "expected nf4 or fp4, found " + type);
  out.dtype = type == "nf4" ? DType::nf4 : DType::fp4;
  out.double_quant = section.flag("bnb_4bit_use_double_quant", false);
  return out;
}

Quantization read_fp8_blocks(Config& section) {
  Quantization out{.kind = QuantizationKind::fp8_block, .dtype = DType::fp8, .skipped = {}};
  if (section.is_null("weight_block_size")) {
    out.block_rows = out.block_columns = 0;
  } else if (const auto block = section.sizes("weight_block_size")) {
    if (block->size() != 2 || std::min((*block)[0], (*block)[1]) < 1) {
      section.reject("weight_block_size", "expected two positive sizes");
    } else {
      out.block_rows = (*block)[0];
      out.block_columns = (*block)[1];
    }
  }
  return out;
}

/// compressed-tensors: one group of fp8 weights, with a scale for each channel or for the tensor.
Quantization read_compressed(Config& section) {
  Config weights = section.section("config_groups").section("group_0").section("weights");
  const std::string type = weights.text("type", "");
  if (type != "float" || weights.count("num_bits", 0) != 8)
    section.reject("config_groups", "expected 8-bit float weights, found another format; it is not modelled");
  Quantization out{.kind = QuantizationKind::fp8_row, .dtype = DType::fp8, .skipped = {}};
  if (weights.text("strategy", "tensor") == "tensor") {
    out.kind = QuantizationKind::fp8_block;
    out.block_rows = out.block_columns = 0;
  }
  return out;
}

std::string_view module_of(std::string_view name) {
  return name.substr(0, name.rfind('.'));
}

bool skips(const Quantization& quantization, std::string_view module) {
  return std::any_of(quantization.skipped.begin(), quantization.skipped.end(),
                     [&](const std::string& part) { return module.find(part) != std::string_view::npos; });
}

bool is_quantized(const Quantization& quantization, const Tensor& tensor) {
  if (skips(quantization, module_of(tensor.name)) || tensor.buffer) return false;
  const bool experts = tensor.role == TensorRole::experts && tensor.shape.size() == 3;
  if (quantization.kind == QuantizationKind::mxfp4) return experts;
  if (experts) return quantization.kind == QuantizationKind::fp8_block;
  return tensor.role == TensorRole::linear && tensor.place != Place::head && tensor.shape.size() == 2;
}

Tensor scale(const Tensor& weight, std::string_view suffix, std::vector<std::int64_t> shape, DType dtype) {
  Tensor out = weight;
  out.name.append(suffix);
  out.shape = std::move(shape);
  out.dtype = dtype;
  out.role = TensorRole::other;
  out.split = Split::replicated;
  out.buffer = true;
  out.trainable = false;
  return out;
}

/// bitsandbytes' state of a 4-bit weight: a scale for each block, and the table of the 16 values.
void add_four_bit(std::vector<Tensor>& out, const Tensor& weight, const Quantization& quantization) {
  const std::int64_t blocks = ceil_div(weight.count(), kBlock);
  if (!quantization.double_quant) {
    out.push_back(scale(weight, ".absmax", {blocks}, DType::fp32));
  } else {
    out.push_back(scale(weight, ".absmax", {blocks}, DType::uint8));
    out.push_back(scale(weight, ".nested_absmax", {ceil_div(blocks, kNestedBlock)}, DType::fp32));
    out.push_back(scale(weight, ".nested_quant_map", {256}, DType::fp32));
    out.push_back(scale(weight, ".nested_offset", {}, DType::fp32));
  }
  out.push_back(scale(weight, ".quant_map", {16}, DType::fp32));
}

/// Of each matrix: a scale a block, or one.
void add_fp8_blocks(std::vector<Tensor>& out, const Tensor& weight, const Quantization& quantization) {
  std::vector<std::int64_t> shape;
  if (weight.shape.size() == 3) shape.push_back(weight.shape[0]);
  if (quantization.block_rows > 0) {
    shape.push_back(ceil_div(weight.shape[weight.shape.size() - 2], quantization.block_rows));
    shape.push_back(ceil_div(weight.shape.back(), quantization.block_columns));
  }
  out.push_back(scale(weight, "_scale_inv", std::move(shape), DType::fp32));
}

/// Each 32 inputs of an output share a scale; the checkpoint keeps outputs before inputs.
void add_mxfp4(std::vector<Tensor>& out, const Tensor& weight) {
  const std::int64_t in = weight.transposed ? weight.shape[1] : weight.shape[2];
  const std::int64_t rows = weight.transposed ? weight.shape[2] : weight.shape[1];
  out.push_back(scale(weight, "_scales", {weight.shape[0], rows, ceil_div(in, kMxBlock)}, DType::uint8));
}

std::string sibling(const Tensor& weight, std::string_view leaf) {
  return std::string(module_of(weight.name)).append(".").append(leaf);
}

void add_scales(std::vector<Tensor>& out, const Tensor& weight, const Quantization& quantization) {
  switch (quantization.kind) {
    case QuantizationKind::four_bit:
      return add_four_bit(out, weight, quantization);
    case QuantizationKind::fp8_block:
      return add_fp8_blocks(out, weight, quantization);
    case QuantizationKind::mxfp4:
      return add_mxfp4(out, weight);
    case QuantizationKind::int8:
      out.push_back(scale(weight, "", {weight.shape[0]}, DType::fp32));
      out.back().name = sibling(weight, "SCB");
      return;
    case QuantizationKind::fp8_row:
      out.push_back(scale(weight, "_scale", {weight.shape[0], 1}, DType::fp32));
      return;
  }
}

}  // namespace

std::optional<Quantization> read_quantization(Config& config) {
  if (!config.has("quantization_config")) return std::nullopt;
  Config section = config.section("quantization_config");
  const std::string method = section.text("quant_method", "bitsandbytes");
  Quantization out;
  if (method == "bitsandbytes") {
    out = read_bitsandbytes(section);
  } else if (method == "fp8") {
    out = read_fp8_blocks(section);
  } else if (method == "fbgemm_fp8") {
    out = {.kind = QuantizationKind::fp8_row, .dtype = DType::fp8, .skipped = {}};
  } else if (method == "compressed-tensors") {
    out = read_compressed(section);
  } else if (method == "mxfp4") {
    out = {.kind = QuantizationKind::mxfp4, .dtype = DType::fp4, .skipped = {}};
  } else {
    section.reject("quant_method",
                   fmt::format("expected bitsandbytes, fp8, fbgemm_fp8, compressed-tensors or mxfp4, "
                               "found {}, whose storage is not modelled",
                               method));
  }
  out.skipped = section.words(kConvert).value_or(std::vector<std::string>{});
  return out;
}

void quantize(Architecture& model, const Quantization& quantization) {
  std::vector<Tensor> tensors;
  tensors.reserve(model.tensors.size() * 2);
  for (Tensor& tensor : model.tensors) {
    tensors.push_back(std::move(tensor));
    if (!is_quantized(quantization, tensors.back())) continue;
    tensors.back().dtype = quantization.dtype;
    tensors.back().trainable = false;
    const Tensor weight = tensors.back();
    add_scales(tensors, weight, quantization);
  }
  model.tensors = std::move(tensors);
}

}  // namespace headroom
