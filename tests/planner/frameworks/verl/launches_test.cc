// The launches that verl's own scripts make, where HEADROOM_TRUTH names the collection: each is read, or
// refused for a reason that is verl's or the launch's own.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "planner/frameworks/input.h"
#include "planner/frameworks/registry.h"
#include "planner/frameworks/verl/read.h"

namespace headroom {
namespace {

struct Counts {
  int all = 0, read = 0, other_machines = 0, placeholders = 0, refused_by_verl = 0, unknown_models = 0;
  int completed = 0;  ///< of the placeholders, those read once what their message asks for is given
  int release_agrees = 0, release_too_new = 0;
};

bool names(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    if (text.find(part) != std::string::npos) return true;
  return false;
}

JobOptions launch(const nlohmann::json& row) {
  JobOptions options;
  const std::string module = row["module"];
  options.words = {"python3"};
  if (!module.ends_with(".py")) options.words.push_back("-m");
  options.words.push_back(module);
  for (const auto& word : row["words"]) options.words.push_back(word);
  options.gpu = "h100";
  return options;
}

/// A check of verl's own, or of its engine.
bool refused_by_verl(const std::string& message) {
  return names(message,
               {"expected a divisor", "expected tensor x data", "positions, found", "found ''", "divide over"});
}

/// Why a launch was not read, as one of the counts.
void refuse(const std::string& message, const nlohmann::json& row, const JobOptions& options, Counts& counts) {
  if (names(message, {"found npu"})) {
    ++counts.other_machines;
  } else if (names(message, {"give --model", "found \"\""})) {
    ++counts.placeholders;
    JobOptions given = options;
    const std::string script = row["script"];
    given.model = names(script, {"671b"})  ? "deepseek-ai/DeepSeek-V3"
                  : names(script, {"70b"}) ? "Qwen/Qwen2-72B-Instruct"
                  : names(script, {"moonlight"}) ? "moonshotai/Moonlight-16B-A3B"
                                           : "Qwen/Qwen2.5-7B-Instruct";
    if (names(message, {"found \"\""})) given.words.insert(given.words.end(), {"trainer.nnodes=1", "trainer.n_gpus_per_node=8"});
    const auto read = read_job(std::vector<std::string>{std::string(kCommandLine)}, given);
    const bool refused = !read && refused_by_verl(read.error().text());
    EXPECT_TRUE(read || refused) << row["script"] << ": " << read.error().text();
    counts.completed += read || refused ? 1 : 0;
  } else if (refused_by_verl(message)) {
    ++counts.refused_by_verl;
  } else if (names(message, {"no preset of a model", "no tensor program", "no program for adapters"})) {
    ++counts.unknown_models;
  } else {
    ADD_FAILURE() << row["script"] << ": " << message;
  }
}

Counts count(const std::filesystem::path& file, const std::string& release) {
  Counts counts;
  std::ifstream in(file);
  const std::vector<std::string> paths{std::string(kCommandLine)};
  for (std::string line; std::getline(in, line);) {
    const auto row = nlohmann::json::parse(line);
    ++counts.all;
    JobOptions options = launch(row);
    if (const auto inferred = read_job(paths, options)) {
      const auto version = verl::settings_of(*inferred).version;
      counts.release_agrees += version <= *verl::parse_version(release) || inferred->alternatives.size() > 0;
      counts.release_too_new += version > *verl::parse_version(release) && inferred->alternatives.empty();
    }
    options.versions.framework = release;
    const auto read = read_job(paths, options);
    if (read) {
      ++counts.read;
      const bool megatron = line.find("megatron_trainer") != std::string::npos ||
                            line.find("model_engine=megatron") != std::string::npos;
      if (megatron) {
        EXPECT_EQ(verl::settings_of(*read).actor.strategy, verl::Strategy::megatron) << row["script"];
      }
    } else {
      refuse(read.error().text(), row, options, counts);
    }
  }
  std::printf(
      "%s: %d launches, %d read, %d for other machines, %d placeholders (%d answered once given), %d that verl refuses, %d models not "
      "known; "
      "release as told or left open in %d, too new in %d\n",
      release.c_str(), counts.all, counts.read, counts.other_machines, counts.placeholders,
      counts.completed, counts.refused_by_verl, counts.unknown_models, counts.release_agrees, counts.release_too_new);
  return counts;
}

TEST(VerlLaunches, AreReadOrRefusedForAReason) {
  const char* truth = std::getenv("HEADROOM_TRUTH");
  if (truth == nullptr) GTEST_SKIP() << "HEADROOM_TRUTH names no collection";
  const auto folder = std::filesystem::path(truth) / "verl" / "launches";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string release = entry.path().stem().string();
    const Counts counts = count(entry.path(), release);
    const int meant = counts.all - counts.other_machines - counts.refused_by_verl;
    EXPECT_GE(counts.read + counts.completed, meant * 9 / 10) << release;
  }
}

}  // namespace
}  // namespace headroom
