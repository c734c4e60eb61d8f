#include "simulator/tape/modules/sequence_split.h"

#include <gtest/gtest.h>

#include "models/architecture/read.h"
#include "models/document/document.h"
#include "simulator/memory/counting_memory.h"
#include "simulator/tape/core/engine.h"
#include "simulator/tape/modules/model.h"
#include "simulator/tape/operations/reduce.h"

namespace headroom::tape {
namespace {

struct Books {
  CountingMemory memory;
  Tape tape{memory};
  Engine engine{tape};
};

TEST(SequenceSplit, PartsAreGatheredAndLeftAgain) {
  Books books;
  Tensor part = books.tape.empty({1, 32, 16}, DType::bf16, 0);
  part->requires_grad = true;
  Tensor whole = gather_tokens(part, 4);
  EXPECT_EQ(whole.size(1), 128);
  Tensor again = scatter_tokens(whole, 4);
  EXPECT_EQ(again.size(1), 32);
  EXPECT_EQ(scatter_tokens(whole, 3).size(1), 43);
}

/// A gradient has its tensor's shape, whatever way the tokens went.
TEST(SequenceSplit, GradientsGoTheOtherWay) {
  Books books;
  Tensor part = books.tape.empty({1, 32, 16}, DType::bf16, 0);
  part->requires_grad = true;
  Tensor loss = sum(scatter_tokens(gather_tokens(part, 4), 2));
  backward(books.engine, loss);
  ASSERT_NE(part->grad, nullptr);
  EXPECT_EQ(part.grad().size(1), 32);
}

/// Bytes that a forward of a small Llama leaves for its backward, with every module of a layer recomputed.
Bytes kept(std::int64_t ranks, bool recomputes) {
  const Architecture llama = make_architecture(parse_document(R"({"model_type": "llama", "vocab_size": 64, "hidden_size": 256,
      "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4})", "config").value(), "config").value();
  ModelOptions options;
  options.token_ranks = ranks;
  if (recomputes) {
    options.recompute.kind = RecomputeKind::selective;
    options.recompute.modules = {"layernorm", "self_attn", "mlp"};
  }
  Books books;
  const auto model = make_model(books.tape, llama, "actor", options).value();
  const auto forward = [&] {
    ModelInput input;
    input.ids = books.tape.empty({1, 512}, DType::int64, 0);
    return model->forward(input);
  };
  forward();
  const Bytes before = books.memory.live();
  const Tensor out = forward();
  return books.memory.live() - before;
}

TEST(SequenceSplit, RecomputedLayersKeepPartsAlone) {
  EXPECT_LT(kept(4, true) * 2, kept(1, true));
  // Products gather for themselves: without recomputation each keeps a gathered input of its own.
  EXPECT_GT(kept(4, false) * 2, kept(1, false));
}

}  // namespace
}  // namespace headroom::tape
