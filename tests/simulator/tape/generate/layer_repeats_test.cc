#include "simulator/tape/generate/layer_repeats.h"

#include <gtest/gtest.h>

#include <regex>

#include "models/architecture/read.h"
#include "models/document/document.h"
#include "simulator/allocator/virtual_device.h"
#include "simulator/memory/counting_memory.h"
#include "simulator/memory/simulated_memory.h"
#include "simulator/tape/generate/sample.h"

namespace headroom::tape {
namespace {

struct Case {
  const char* name;
  const char* config;
  std::int64_t batch, prompt, tokens;
  Bytes device = 80 * kGiB;
  const char* settings = "";
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.name;
}

enum class Forward { own, wrapped, even };  ///< wrapped: by whom, nobody knows what stays of it

void generate(Tape& tape, const Case& c, Forward forward = Forward::own, int* forwards = nullptr) {
  const Architecture architecture =
      make_architecture(parse_document(c.config, "config").value(), "config").value();
  ModelOptions options;
  options.training = false;
  const auto model = make_model(tape, architecture, "actor", options).value();
  const GradMode no_grad(tape, false);
  const Tensor prompts = tape.empty({c.batch, c.prompt}, DType::int64, 0);
  SampleOptions sampling;
  sampling.new_tokens = c.tokens;
  if (forward != Forward::own) 
    sampling.forward = [&](const ModelInput& input) {
      ++*forwards;
      return model->forward(input);
    };
  sampling.even = forward == Forward::even;
  for (int i = 0; i < 2; ++i) sample(*model, prompts, sampling);
}

/// One generation, with every allocation executed or with equal layers left out.
struct Generation {
  Generation(const Case& c, bool leave_out)
      : device(c.device), memory(allocator::parse_allocator_settings(c.settings).value(), device) {
    memory.leave_out_repetitions(leave_out);
    memory.allocator().set_observer(&worked);
    generate(tape, c);
    segments = memory.allocator().segments();
  }
  struct Worked : allocator::Observer {
    void alloc(allocator::BlockId, allocator::Address, Bytes, allocator::Stream) override { ++allocations; }
    std::int64_t allocations = 0;
  };
  Worked worked;
  allocator::VirtualDevice device;
  SimulatedMemory memory;
  Tape tape{memory};
  std::vector<allocator::SegmentView> segments;
};

constexpr const char* kLlama = R"({"model_type": "llama", "vocab_size": 1000, "hidden_size": 512,
    "intermediate_size": 1024, "num_hidden_layers": 9, "num_attention_heads": 8, "num_key_value_heads": 2})";
constexpr const char* kQwen = R"({"model_type": "qwen2", "vocab_size": 1000, "hidden_size": 512,
    "intermediate_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 8, "num_key_value_heads": 8})";
constexpr const char* kGpt2 = R"({"model_type": "gpt2", "vocab_size": 1000, "n_embd": 256, "n_layer": 8,
    "n_head": 4})";
constexpr const char* kOpt = R"({"model_type": "opt", "vocab_size": 1000, "hidden_size": 256, "ffn_dim": 1024,
    "num_hidden_layers": 8, "num_attention_heads": 4, "max_position_embeddings": 4096,
    "word_embed_proj_dim": 256})";
constexpr const char* kNeox = R"({"model_type": "gpt_neox", "vocab_size": 1000, "hidden_size": 256,
    "intermediate_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 4})";

class LeftOutLayers : public testing::TestWithParam<Case> {};

TEST_P(LeftOutLayers, ChangeNeitherCountersNorPlaces) {
  Generation executed(GetParam(), false), left_out(GetParam(), true);
  if (left_out.memory.left_out_wrongly()) return;  // then the figures are not used
  EXPECT_EQ(allocator::named_statistics(left_out.memory.allocator().statistics()),
            allocator::named_statistics(executed.memory.allocator().statistics()));
  EXPECT_EQ(left_out.memory.peak_allocated(), executed.memory.peak_allocated());
  EXPECT_EQ(left_out.memory.at_peak(), executed.memory.at_peak());
  EXPECT_EQ(left_out.memory.live(), executed.memory.live());
  EXPECT_EQ(left_out.memory.allocations(), executed.memory.allocations());
  EXPECT_EQ(left_out.memory.peak_allocation(), executed.memory.peak_allocation());
  EXPECT_EQ(left_out.memory.out_of_memory(), executed.memory.out_of_memory());
  ASSERT_EQ(left_out.segments.size(), executed.segments.size());
  for (std::size_t i = 0; i < executed.segments.size(); ++i) {
    const allocator::SegmentView &a = executed.segments[i], &b = left_out.segments[i];
    EXPECT_EQ(a.address, b.address);
    EXPECT_EQ(a.size, b.size);
    ASSERT_EQ(a.blocks.size(), b.blocks.size()) << "segment " << i;
    for (std::size_t j = 0; j < a.blocks.size(); ++j) {
      EXPECT_EQ(a.blocks[j].address, b.blocks[j].address);
      EXPECT_EQ(a.blocks[j].size, b.blocks[j].size);
      EXPECT_EQ(a.blocks[j].requested, b.blocks[j].requested);
      EXPECT_EQ(a.blocks[j].state, b.blocks[j].state);
    }
  }
}

/// A sum leaves out tokens too.
TEST_P(LeftOutLayers, ChangeNoSum) {
  CountingMemory executed, left_out;
  for (CountingMemory* memory : {&executed, &left_out}) {
    memory->leave_out_repetitions(memory == &left_out);
    Tape tape(*memory);
    generate(tape, GetParam());
  }
  EXPECT_EQ(left_out.peak(), executed.peak());
  EXPECT_EQ(left_out.at_peak(), executed.at_peak());
  EXPECT_EQ(left_out.live(), executed.live());
  EXPECT_EQ(left_out.components(), executed.components());
  EXPECT_EQ(left_out.active_peak(), executed.active_peak());
  EXPECT_EQ(left_out.reserved_peak(), executed.reserved_peak());
  EXPECT_EQ(left_out.allocations(), executed.allocations());
}

INSTANTIATE_TEST_SUITE_P(
    OfATokensForward, LeftOutLayers,
    testing::Values(Case{"llama", kLlama, 16, 700, 40}, Case{"small_caches_are_executed", kLlama, 1, 8, 20},
                    Case{"prompts_of_one_token", kLlama, 16, 1, 40},
                    Case{"caches_outgrow_the_small_pool", kLlama, 4, 900, 260},
                    Case{"wide_batch_is_executed", kLlama, 1200, 4, 12}, Case{"qwen2", kQwen, 8, 600, 30},
                    Case{"few_tokens", kGpt2, 8, 30, 5}, Case{"a_leap", kGpt2, 8, 30, 8},
                    Case{"gpt2", kGpt2, 32, 200, 30}, Case{"opt", kOpt, 16, 600, 30},
                    Case{"neox", kNeox, 16, 600, 30},
                    Case{"expandable", kLlama, 16, 700, 40, 80 * kGiB, "expandable_segments:True"},
                    Case{"split_size", kLlama, 16, 700, 40, 80 * kGiB, "max_split_size_mb:20"},
                    Case{"collected", kLlama, 16, 700, 40, 80 * kGiB, "garbage_collection_threshold:0.5"},
                    Case{"full_device", kLlama, 16, 700, 40, 172 * kMiB},
                    Case{"fuller_device", kLlama, 16, 700, 40, 142 * kMiB}),
    [](const auto& parameter) { return std::string(parameter.param.name); });

/// Of wrapped forwards only those are left out that their caller knows to be alike; no sum changes.
TEST(LeftOutTokens, OfWrappedForwardsWhereTheyAreEven) {
  const Case c{"", kLlama, 16, 700, 40};
  CountingMemory executed, left_out;
  int all = 0, some = 0;
  Tape all_tape(executed), some_tape(left_out);
  generate(all_tape, c, Forward::wrapped, &all);
  generate(some_tape, c, Forward::even, &some);
  EXPECT_EQ(all, 2 * c.tokens);
  EXPECT_LT(2 * some, all);
  EXPECT_EQ(left_out.peak(), executed.peak());
  EXPECT_EQ(left_out.at_peak(), executed.at_peak());
  EXPECT_EQ(left_out.live(), executed.live());
  EXPECT_EQ(left_out.allocations(), executed.allocations());
}

/// The proof holds where it should: most layers of large caches are left out.
TEST(RepeatedLayers, SpareMostOfTheWork) {
  const std::string deep = std::regex_replace(kLlama, std::regex("_layers\": 9"), "_layers\": 41");
  const Case large{"", deep.c_str(), 16, 700, 20};
  const Generation executed(large, false), left_out(large, true);
  EXPECT_LT(2 * left_out.worked.allocations, executed.worked.allocations);
  EXPECT_EQ(executed.worked.allocations, executed.memory.allocations());
}

}  // namespace
}  // namespace headroom::tape
