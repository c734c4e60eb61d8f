#include "simulator/engine/generation/request_load.h"

#include <gtest/gtest.h>

#include "tests/simulator/engine/engine_model.h"

namespace headroom::engine {
namespace {

/// Lengths of a run, in tokens; 0: unknown.
struct Known {
  double prompt = 0, response = 0;
  std::int64_t total = 0, longest = 0;
};

Job job_of(const Known& known) {
  Job job;
  job.pools.push_back({.name = "main"});
  job.batch.prompts = 64;
  job.batch.samples = 4;
  job.batch.prompt_length = 1024;
  job.batch.response_length = 512;
  job.lengths.mean_prompt = known.prompt;
  job.lengths.mean_response = known.response;
  job.lengths.max_total = known.total;
  job.lengths.max_response = known.longest;
  return job;
}

double longest(const Job& job) {
  const Engine engine = test::engine_of("meta-llama/Llama-3.1-8B-Instruct");
  return load_of(job, engine, Account{}).ends.back().tokens;
}

TEST(RequestLoad, EndsAtTheCapWhereNothingElseIsKnown) {
  EXPECT_EQ(longest(job_of({})), 512);
  EXPECT_EQ(longest(job_of({.prompt = 100, .response = 200})), 512);
}

// Prompts are shorter than their cap: what they leave of the longest sequence is no room for responses.
TEST(RequestLoad, NoResponseIsLongerThanTheLongest) {
  EXPECT_EQ(longest(job_of({.prompt = 100, .response = 200, .total = 1536, .longest = 400})), 400);
  EXPECT_EQ(longest(job_of({.prompt = 100, .response = 200, .total = 1536})), 512);
  EXPECT_EQ(longest(job_of({.prompt = 100, .response = 200, .total = 350, .longest = 400})), 250);
}

TEST(RequestLoad, TheLongestIsNoShorterThanTheMean) {
  EXPECT_GE(longest(job_of({.prompt = 100, .response = 200, .total = 150})), 200);
}

}  // namespace
}  // namespace headroom::engine
