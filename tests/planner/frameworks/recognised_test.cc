#include "planner/frameworks/recognised.h"

#include <gmock/gmock.h>

#include <fstream>

#include "planner/frameworks/registry.h"
#include "tests/planner/frameworks/openrlhf/run.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

using testing::HasSubstr;

std::string said_of_file(const std::string& text) {
  JobInput input;
  Result<Document> document = parse_document(text, "run.yaml");
  if (!document) return document.error().text();
  input.files.push_back({.path = "run.yaml", .document = std::move(*document), .text = text});
  const Result<ReadJob> read = read_job(input, {});
  return read ? "read" : read.error().text();
}

std::string said_of_script(const std::string& text) {
  const Result<ReadJob> read = test::read_launch(text);
  return read ? "read" : read.error().text();
}

TEST(Recognised, FilesAreRefusedByTheirFrameworksName) {
  EXPECT_THAT(said_of_file("compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\n"),
              HasSubstr("accelerate: a launcher's configuration"));
  EXPECT_THAT(said_of_file("{zero_optimization: {stage: 2}}\n"), HasSubstr("DeepSpeed: an engine's configuration"));
  EXPECT_THAT(said_of_file("something: else\n"), HasSubstr("no known framework's keys"));
}

TEST(Recognised, CommandsAreRefusedAtTheirLine) {
  EXPECT_THAT(said_of_script("\npython rl_example.py -t 2 -i 2\n"),
              HasSubstr("run.sh:2: ColossalChat: its distributed reinforcement learning is recognised but not read yet"));
  EXPECT_THAT(said_of_script("trl kto --model_name_or_path m\n"), HasSubstr("run.sh:1: TRL: the trainer of kto"));
}

TEST(Recognised, ProgramsOfTheUsersOwnAreToldByWhatTheyImport) {
  const auto said = [](const std::string& text) {
    const auto found = recognise_program(text, "p.py");
    return found ? found->framework : "";
  };
  EXPECT_EQ(said("import torch\nfrom trl import GRPOConfig, GRPOTrainer\n"), "TRL");
  EXPECT_EQ(said("import coati.trainer as t"), "ColossalChat");
  EXPECT_EQ(said("from trlx import train\n# from trl import x\nimport trl_extras\n"), "");

  const std::string path = (test::scratch() / "own.py").string();
  std::ofstream(path) << "from trl import GRPOTrainer\nprint('started')\n";
  EXPECT_THAT(said_of_script("python " + path + " --lr 1\n"), HasSubstr("run.sh:1: TRL: a program of the user's own"));
  const Result<ReadJob> file = read_job(std::vector<std::string>{path}, {});
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().text(), HasSubstr("own.py: TRL: a program of the user's own"));
  EXPECT_TRUE(is_no_run(file.error()));
}

}  // namespace
}  // namespace headroom
