#include "models/architecture/quantization.h"

#include <gmock/gmock.h>

#include "tests/models/support/models.h"

namespace headroom {
namespace {

using testing::ElementsAre;

std::string llama(const std::string& quantization) {
  return "{model_type: llama, vocab_size: 1000, hidden_size: 256, intermediate_size: 512, num_hidden_layers: "
         "2, "
         "num_attention_heads: 4, num_key_value_heads: 2, dtype: bfloat16, quantization_config: " +
         quantization + "}";
}

const std::string kUp = "model.layers.1.mlp.up_proj.weight";  // [512, 256]

const Tensor& tensor(const Architecture& model, const std::string& name) {
  const Tensor* found = model.find(name);
  if (found == nullptr) {
    ADD_FAILURE() << name;
    return model.tensors.front();
  }
  return *found;
}

TEST(Quantization, Nf4KeepsAScaleForEach64Elements) {
  const Architecture model =
      test::model_of(llama("{quant_method: bitsandbytes, load_in_4bit: true, bnb_4bit_quant_type: nf4}"));
  EXPECT_EQ(tensor(model, kUp).dtype, DType::nf4);
  EXPECT_FALSE(tensor(model, kUp).trainable);
  EXPECT_THAT(tensor(model, kUp + ".absmax").shape, ElementsAre(2048));
  EXPECT_EQ(tensor(model, kUp + ".absmax").dtype, DType::fp32);
  EXPECT_TRUE(tensor(model, kUp + ".absmax").buffer);
  EXPECT_EQ(tensor(model, "lm_head.weight").dtype, DType::bf16);
  EXPECT_EQ(tensor(model, "model.embed_tokens.weight").dtype, DType::bf16);
  EXPECT_EQ(model.parameters(), test::model_of(llama("null")).parameters());
}

TEST(Quantization, DoubleQuantizationKeepsScalesInEightBits) {
  const Architecture model =
      test::model_of(llama("{quant_method: bitsandbytes, load_in_4bit: true, bnb_4bit_quant_type: nf4, "
                           "bnb_4bit_use_double_quant: true}"));
  EXPECT_EQ(tensor(model, kUp + ".absmax").dtype, DType::uint8);
  EXPECT_THAT(tensor(model, kUp + ".nested_absmax").shape, ElementsAre(8));
}

TEST(Quantization, Int8KeepsAScaleForEachRow) {
  const Architecture model = test::model_of(llama("{quant_method: bitsandbytes, load_in_8bit: true}"));
  EXPECT_EQ(tensor(model, kUp).dtype, DType::int8);
  EXPECT_THAT(tensor(model, "model.layers.1.mlp.up_proj.SCB").shape, ElementsAre(512));
}

TEST(Quantization, Fp8KeepsAScaleForEachBlockOfDeepseeksExpertsToo) {
  std::string config = test::kSmallDeepseek;
  config.insert(config.size() - 1, ", quantization_config: {quant_method: fp8, weight_block_size: [16, 32]}");
  const Architecture model = test::model_of(config);
  EXPECT_EQ(tensor(model, "model.layers.4.mlp.experts.gate_up_proj").dtype, DType::fp8);
  EXPECT_THAT(tensor(model, "model.layers.4.mlp.experts.gate_up_proj_scale_inv").shape,
              ElementsAre(16, 4, 2));
  EXPECT_THAT(tensor(model, "model.layers.0.self_attn.q_a_proj.weight_scale_inv").shape, ElementsAre(2, 2));
  EXPECT_EQ(tensor(model, "model.layers.4.mlp.gate.weight").dtype, DType::fp32);
}

TEST(Quantization, KeepsSkippedModules) {
  const Architecture model = test::model_of(llama("{quant_method: fp8, modules_to_not_convert: [up_proj]}"));
  EXPECT_EQ(tensor(model, kUp).dtype, DType::bf16);
  EXPECT_EQ(tensor(model, "model.layers.1.mlp.down_proj.weight").dtype, DType::fp8);
}

TEST(Quantization, Mxfp4IsForExpertsOnly) {
  std::string config = test::kSmallGptOss;
  config.insert(config.size() - 1, ", dtype: bfloat16, quantization_config: {quant_method: mxfp4}");
  const Architecture model = test::model_of(config);
  EXPECT_EQ(tensor(model, "model.layers.0.mlp.experts.down_proj").dtype, DType::fp4);
  EXPECT_THAT(tensor(model, "model.layers.0.mlp.experts.gate_up_proj_scales").shape, ElementsAre(8, 64, 2));
  EXPECT_EQ(tensor(model, "model.layers.0.self_attn.q_proj.weight").dtype, DType::bf16);
  EXPECT_EQ(tensor(model, "model.layers.0.mlp.experts.down_proj_bias").dtype, DType::bf16);
}

TEST(Quantization, RefusesWhatItDoesNotModel) {
  const Error error = test::error_of(llama("{quant_method: gptq, bits: 4}"));
  EXPECT_EQ(error.key, "quantization_config.quant_method");
  EXPECT_THAT(error.message, testing::HasSubstr("gptq"));
  EXPECT_EQ(test::error_of(llama("{quant_method: bitsandbytes}")).key, "quantization_config.load_in_4bit");
}

}  // namespace
}  // namespace headroom
