#include "simulator/tape/operations/work.h"

#include <gtest/gtest.h>

#include "simulator/memory/counting_memory.h"
#include "simulator/memory/forwarding_memory.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/linear.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape {
namespace {

class Last final : public ForwardingMemory {
 public:
  using ForwardingMemory::ForwardingMemory;
  bool wants_operations() const override { return true; }
  void run(const Operation& operation) override { by_element = operation.by_element; }
  bool by_element = false;
};

struct Setting {
  CountingMemory counting{false, false};
  Last memory{counting};
  Tape tape{memory};
  const std::uint16_t name = operation_name("test");
  Tensor make(std::initializer_list<std::int64_t> sizes) { return tape.empty(sizes, DType::bf16, name); }
};

TEST(Work, OfEqualLayoutsMovesVectors) {
  Setting s;
  const Tensor x = s.make({4, 64}), y = s.make({4, 64});
  add(x, y);
  EXPECT_FALSE(s.memory.by_element);
  const Tensor turned = transpose(x, 0, 1), other = transpose(y, 0, 1);
  add(turned, other);
  EXPECT_FALSE(s.memory.by_element) << "permuted alike";
}

TEST(Work, OfDifferentLayoutsMovesElements) {
  Setting s;
  const Tensor x = s.make({64, 64}), weight = s.make({64});
  mul(x, weight);
  EXPECT_TRUE(s.memory.by_element) << "broadcast";
  const Tensor turned = transpose(x, 0, 1);
  add(turned, x);
  EXPECT_TRUE(s.memory.by_element) << "one is permuted";
  contiguous(turned);
  EXPECT_TRUE(s.memory.by_element) << "copied into order";
  const Tensor half = slice(x, 1, 0, 32), rest = slice(x, 1, 32, 32);
  cat(half, rest, -1);
  EXPECT_TRUE(s.memory.by_element) << "parts of rows joined";
}

TEST(Work, OfProductsAlignsRows) {
  Setting s;
  const Tensor x = s.make({8, 64}), even = s.make({64, 128}), odd = s.make({64, 127});
  matmul(x, even);
  EXPECT_FALSE(s.memory.by_element);
  matmul(x, odd);
  EXPECT_TRUE(s.memory.by_element);
}

}  // namespace
}  // namespace headroom::tape
