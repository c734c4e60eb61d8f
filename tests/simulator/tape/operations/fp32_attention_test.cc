#include "simulator/tape/operations/fp32_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "simulator/memory/recording_memory.h"
#include "simulator/tape/core/engine.h"
#include "simulator/tape/operations/attention.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape {
namespace {

/// Against scaled_dot_product_attention of PyTorch 2.11 on an H200, recorded allocation by allocation.
class Fp32AttentionTest : public ::testing::Test {
 protected:
  RecordingMemory memory;
  Tape tape{memory};
  Engine engine{tape};

  /// [2,heads,tokens,64] over memory in token order, as projections leave it.
  Tensor heads(std::int64_t count, std::int64_t tokens) {
    return transpose(tape.parameter({2, tokens, count, 64}, DType::fp32, true), 1, 2);
  }
  std::vector<Bytes> allocations(std::size_t from) const {
    std::vector<Bytes> out;
    for (std::size_t i = from; i < memory.events().size(); ++i)
      if (memory.events()[i].kind == MemoryEvent::Kind::allocate) out.push_back(memory.events()[i].bytes);
    return out;
  }
  /// A first product takes the library's workspace.
  void warm_up() {
    const Tensor q = heads(14, 4), k = heads(2, 4), v = heads(2, 4);
    scaled_dot_product_attention(q, k, v);
  }
  std::size_t now() const { return memory.events().size(); }
};

TEST_F(Fp32AttentionTest, FewerKeyHeadsGoProductByProduct) {
  warm_up();
  const Tensor q = heads(14, 48), k = heads(2, 48), v = heads(2, 48);
  const GradMode no_grad(tape, false);
  const std::size_t start = now();
  const Tensor out = scaled_dot_product_attention(q, k, v);
  EXPECT_EQ(allocations(start), (std::vector<Bytes>{344064, 2304, 2304, 4, 4, 9216, 344064, 344064, 344064,
                                                    344064, 258048, 258048, 64512, 1344, 4, 344064}));
}

TEST_F(Fp32AttentionTest, OneTokenNeedsNoTriangle) {
  warm_up();
  const Tensor q = heads(14, 1), k = heads(2, 49), v = heads(2, 49);
  const GradMode no_grad(tape, false);
  const std::size_t start = now();
  const Tensor out = scaled_dot_product_attention(q, k, v);
  EXPECT_EQ(allocations(start),
            (std::vector<Bytes>{7168, 351232, 351232, 351232, 5488, 5488, 1372, 28, 4, 7168}));
}

TEST_F(Fp32AttentionTest, TrainingKeepsProbabilities) {
  warm_up();
  const Tensor q = heads(14, 48), k = heads(2, 48), v = heads(2, 48);
  const Bytes before = memory.live();
  const Tensor out = scaled_dot_product_attention(q, k, v);
  // Repeated values, scaled queries and keys in rows, probabilities, the result.
  EXPECT_EQ(memory.live() - before, 3 * 344064 + 258048 + 344064);
}

TEST_F(Fp32AttentionTest, AsManyKeyHeadsTakeTheEfficientKernel) {
  const Tensor q = heads(8, 48), k = heads(8, 48), v = heads(8, 48);
  {
    const GradMode no_grad(tape, false);
    const std::size_t start = now();
    const Tensor out = scaled_dot_product_attention(q, k, v);
    EXPECT_EQ(allocations(start), (std::vector<Bytes>{196608}));
  }
  std::size_t start = now();
  Tensor out = scaled_dot_product_attention(q, k, v);
  EXPECT_EQ(allocations(start), (std::vector<Bytes>{196608, 4096}));
  Tensor loss = sum(out);
  out.reset();
  start = now();
  backward(engine, loss);
  const std::vector<Bytes> wanted = {196608, 196608, 196608, 196608, 3072, 3072, 262400};
  const std::vector<Bytes> got = allocations(start);
  EXPECT_NE(std::search(got.begin(), got.end(), wanted.begin(), wanted.end()), got.end());
}

/// One head for all of them is expanded by the products, behind its mask.
TEST_F(Fp32AttentionTest, AMaskReachesGroupedHeads) {
  warm_up();
  const Tensor q = heads(8, 1), k = heads(1, 49), v = heads(1, 49);
  const Tensor mask = tape.empty({2, 1, 1, 49}, DType::boolean, 0);
  const GradMode no_grad(tape, false);
  const std::size_t start = now();
  const Tensor out = masked_attention(q, k, v, mask);
  EXPECT_EQ(allocations(start),
            (std::vector<Bytes>{4, 4, 392, 4096, 25088, 200704, 3136, 3136, 784, 16, 4, 200704, 4096}));
}

TEST_F(Fp32AttentionTest, MasksBecomeNumbersInWholeColumns) {
  const Tensor q = heads(8, 1), k = heads(8, 49), v = heads(8, 49);
  const Tensor mask = tape.empty({2, 1, 1, 49}, DType::boolean, 0);
  const GradMode no_grad(tape, false);
  const std::size_t start = now();
  const Tensor out = masked_attention(q, k, v, mask);
  EXPECT_EQ(allocations(start), (std::vector<Bytes>{4, 4, 392, 448, 4096}));
}

}  // namespace
}  // namespace headroom::tape
