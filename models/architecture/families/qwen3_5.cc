#include "models/architecture/family.h"
#include "models/architecture/qwen3_next.h"
#include "models/architecture/qwen3_vision.h"

namespace headroom {
namespace {

constexpr QwenHybrid kDense{.defaults = {.vocabulary = 248320,
                                         .intermediate = 12288,
                                         .heads = 16,
                                         .kv_heads = 4,
                                         .head_dim = 256,
                                         .max_positions = 32768}};
constexpr QwenHybrid kSparse{
    .defaults = {.vocabulary = 248320,
                 .hidden = 2048,
                 .intermediate = 5632,
                 .layers = 40,
                 .heads = 16,
                 .kv_heads = 2,
                 .head_dim = 256,
                 .max_positions = 32768},
    .experts = {.experts = 256, .experts_per_token = 8, .hidden = 512, .normalized = true},
    .shared_hidden = 512};

/// Both with the tower of Qwen3-VL, whose features enter the decoder at its first layer alone.
template <const QwenHybrid& family>
void describe(Config& config, Architecture& model) {
  Config text = config.section("text_config");
  describe_qwen_hybrid(text, model, family);
  model.decoder.tied_embeddings = config.flag("tie_word_embeddings", model.decoder.tied_embeddings);
  model.vision = read_qwen3_vision(config, "Qwen3_5VisionBlock", 0);
}

template <const QwenHybrid& family>
void describe_text(Config& config, Architecture& model) {
  describe_qwen_hybrid(config, model, family);
}

void write(TensorWriter& out) {
  write_qwen3_vision(out, 0);
  write_qwen_hybrid(out, "model.language_model");
}

void write_text(TensorWriter& out) {
  write_qwen_hybrid(out, "model");
}

}  // namespace

extern const Family kQwen35;
const Family kQwen35{"qwen3_5", "Qwen3_5DecoderLayer", describe<kDense>, write, {.begin_token = false}};

extern const Family kQwen35Text;
const Family kQwen35Text{
    "qwen3_5_text", "Qwen3_5DecoderLayer", describe_text<kDense>, write_text, {.begin_token = false}};

extern const Family kQwen35Moe;
const Family kQwen35Moe{
    "qwen3_5_moe", "Qwen3_5MoeDecoderLayer", describe<kSparse>, write, {.begin_token = false}};

extern const Family kQwen35MoeText;
const Family kQwen35MoeText{
    "qwen3_5_moe_text", "Qwen3_5MoeDecoderLayer", describe_text<kSparse>, write_text, {.begin_token = false}};

}  // namespace headroom
