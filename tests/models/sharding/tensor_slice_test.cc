#include "models/sharding/tensor_slice.h"

#include <gtest/gtest.h>

#include "models/architecture/read.h"
#include "models/presets/presets.h"

namespace headroom {
namespace {

Architecture preset(const char* name) {
  return *make_architecture(*find_preset(name), name, {});
}

TEST(TensorSlice, RanksTogetherHoldTheModelAndItsNormsOnEach) {
  const Architecture model = preset("Qwen/Qwen2.5-7B");
  const std::int64_t ranks = 4;
  const Architecture slice = *tensor_slice(model, ranks);
  EXPECT_EQ(slice.decoder.hidden, model.decoder.hidden);
  EXPECT_EQ(slice.decoder.layer(0).attention.heads * ranks, model.decoder.layer(0).attention.heads);
  EXPECT_EQ(slice.decoder.layer(0).mlp.hidden * ranks, model.decoder.layer(0).mlp.hidden);
  std::int64_t whole = 0;  // what every rank has: norms
  for (const Tensor& tensor : model.tensors)
    if (tensor.split == Split::replicated && !tensor.buffer) whole += tensor.count();
  EXPECT_EQ(slice.parameters() * ranks, model.parameters() + (ranks - 1) * whole);
}

TEST(TensorSlice, FewHeadsAreRepeatedAndOddOnesRefused) {
  const Architecture model = preset("Qwen/Qwen2.5-7B");  // 28 heads, 4 of keys
  EXPECT_EQ(tensor_slice(model, 7).has_value(), false);
  const Architecture one = *tensor_slice(model, 1);
  EXPECT_EQ(one.parameters(), model.parameters());
  EXPECT_FALSE(tensor_slice(model, 3));
}

}  // namespace
}  // namespace headroom
