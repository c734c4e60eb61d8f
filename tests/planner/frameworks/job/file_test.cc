#include "planner/frameworks/job/file.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "planner/frameworks/job/fields.h"
#include "planner/frameworks/registry.h"
#include "tests/planner/frameworks/examples.h"

namespace headroom {
namespace {

using testing::HasSubstr;

const char* const kSmall = R"(headroom: job/1
pools: [{nodes: 1, gpus_per_node: 2}]
batch: {prompts: 8, samples: 2, prompt_length: 128, response_length: 128}
roles:
  - name: actor
    model: Qwen/Qwen2.5-0.5B
    trained: true
    sharding: {kind: fsdp1}
    train: {sequences: 2}
engines:
  - name: rollout
    kind: vllm
    role: actor
    model: Qwen/Qwen2.5-0.5B
    utilization: 0.4
)";

Result<Job> read_text_as_job(const std::string& text) {
  const Result<Document> document = parse_document(text, "run.yaml");
  if (!document) return tl::unexpected<Error>(document.error());
  return jobfile::read_job_file(*document, "run.yaml", "");
}

/// kSmall with `from` replaced; what is said about it.
std::string complaint(const std::string& from, const std::string& to) {
  std::string text = kSmall;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const Result<Job> job = read_text_as_job(text);
  return job ? "" : job.error().text();
}

TEST(JobFile, CompletesWhatItLeavesOut) {
  const Result<Job> job = read_text_as_job(kSmall);
  ASSERT_TRUE(job) << job.error().text();
  ASSERT_EQ(job->processes.size(), 2U);
  EXPECT_EQ(job->processes[0].roles, std::vector<std::string>{"actor"});
  EXPECT_EQ(job->processes[1].engine, "rollout");
  std::string order;
  for (const PhaseSpec& phase : job->step) order += std::string(name(phase.kind)) + " ";
  EXPECT_EQ(order, "generate actor_logprob train_actor weight_sync ");
  EXPECT_EQ(job->roles[0].model->decoder.layers, 24);
}

TEST(JobFile, ErrorsNameTheLineAndTheField) {
  EXPECT_THAT(complaint("trained: true", "traineed: true"),
              HasSubstr("run.yaml:7: roles.0.traineed: is no field of a job file; did you mean trained?"));
  EXPECT_THAT(complaint("prompts: 8", "prompts: many"),
              HasSubstr("run.yaml:3: batch.prompts: expected an integer from 1 to"));
  EXPECT_THAT(complaint("prompts: 8", "prompts: -8"), HasSubstr("batch.prompts: expected an integer from 1"));
  EXPECT_THAT(complaint("prompts: 8", "prompts: 99999999999999999999"),
              HasSubstr("batch.prompts: expected an integer"));
  EXPECT_THAT(complaint("prompts: 8, ", ""), HasSubstr("run.yaml:3: batch.prompts: is required and missing"));
  EXPECT_THAT(complaint("kind: fsdp1", "kind: fsdp3"),
              HasSubstr("roles.0.sharding.kind: expected one of none, data_parallel, fsdp1"));
  EXPECT_THAT(complaint("utilization: 0.4", "utilization: 1.4"),
              HasSubstr("engines.0.utilization: expected a fraction"));
  EXPECT_THAT(complaint("utilization: 0.4", "kv_bytes: 1000000"),
              HasSubstr("engines.0.kv_bytes: expected a size with its unit"));
  EXPECT_THAT(complaint("gpus_per_node: 2", "gpus_per_node: 0"),
              HasSubstr("pools.0.gpus_per_node: expected an integer from 1"));
  EXPECT_THAT(complaint("model: Qwen/Qwen2.5-0.5B\n    trained", "model: Qwen/Qwen2.5-0.6B\n    trained"),
              HasSubstr("run.yaml:6: roles.actor.model: Qwen/Qwen2.5-0.6B"));
  EXPECT_THAT(complaint("job/1", "job/2"), HasSubstr("run.yaml:1: headroom: expected `headroom: job/1`"));
  EXPECT_THAT(complaint("engines:", "engine:"), HasSubstr("did you mean engines?"));
}

TEST(JobFile, RefusesWhatNoRunCanBe) {
  EXPECT_THAT(complaint("utilization: 0.4", "tensor: 3"),
              HasSubstr("run.yaml:15: engines.rollout.tensor: expected a divisor of the model's 14"));
  EXPECT_THAT(complaint("role: actor", "role: actor\n    tensor: 14"), HasSubstr("divides the 2 GPUs"));
}

/// Converts to whatever a member is.
struct Anything {
  template <typename T>
  operator T() const;  // NOLINT: implicit by purpose
};

/// How many members an aggregate has: the most values that may stand in its braces.
template <typename T, typename... Values>
constexpr std::size_t members() {
  if constexpr (requires { T{Values{}..., Anything{}}; }) {
    return members<T, Values..., Anything>();
  } else {
    return sizeof...(Values);
  }
}

struct CountFields {
  std::size_t count = 0;
  template <typename Struct, typename T>
  void field(const jobfile::Info&, T Struct::*) {
    ++count;
  }
  template <typename Struct>
  void model(const jobfile::Info&, std::string Struct::*, std::shared_ptr<const Architecture> Struct::*) {
    count += 2;
  }
  template <typename Struct>
  void parts(const jobfile::Info&, unsigned Struct::*) {
    ++count;
  }
};

template <typename Struct>
void expect_complete(const char* name) {
  CountFields counter;
  jobfile::Fields<Struct>::visit(counter);
  EXPECT_EQ(counter.count, members<Struct>()) << name << " has members that fields.h does not describe";
}

TEST(JobFile, DescribesEveryMember) {
  expect_complete<Versions>("Versions");
  expect_complete<Pool>("Pool");
  expect_complete<Batch>("Batch");
  expect_complete<ListedBatches>("ListedBatches");
  expect_complete<Lengths>("Lengths");
  expect_complete<Precision>("Precision");
  expect_complete<Parallel>("Parallel");
  expect_complete<Sharding>("Sharding");
  expect_complete<MegatronSwitches>("MegatronSwitches");
  expect_complete<Recompute>("Recompute");
  expect_complete<Optimizer>("Optimizer");
  expect_complete<LoraSpec>("LoraSpec");
  expect_complete<LossSpec>("LossSpec");
  expect_complete<MicroBatch>("MicroBatch");
  expect_complete<Role>("Role");
  expect_complete<WeightSync>("WeightSync");
  expect_complete<Engine>("Engine");
  expect_complete<Process>("Process");
  expect_complete<Action>("Action");
  expect_complete<When>("When");
  expect_complete<PhaseSpec>("PhaseSpec");
  expect_complete<Job>("Job");
}

TEST(JobFile, EveryJobSurvivesItsFile) {
  std::vector<std::string> paths = test::examples("verl");
  for (const std::string& path : test::examples("job")) paths.push_back(path);
  for (const std::string& path : paths) {
    const Result<ReadJob> read = read_job(std::vector<std::string>{path}, {});
    ASSERT_TRUE(read) << path << ": " << read.error().text();
    const std::string text = write_yaml(jobfile::write_job_file(read->job));
    const Result<Job> again = read_text_as_job(text);
    ASSERT_TRUE(again) << path << ": " << again.error().text() << "\n" << text;
    EXPECT_EQ(write_yaml(jobfile::write_job_file(*again)), text);
    EXPECT_TRUE(*again == read->job) << path;
  }
}

/// Whether `value` obeys `schema`, for the keywords that job_schema uses; the first violation.
std::string violation(const nlohmann::json& schema, const Document& value, const std::string& at) {
  if (schema.contains("anyOf")) {
    if (value.is_null()) return "";
    return violation(schema["anyOf"][0], value, at);
  }
  if (schema.contains("const")) return value.text() == schema["const"] ? "" : at + " is not the constant";
  if (schema.contains("enum")) {
    for (const auto& word : schema["enum"])
      if (value.is_scalar() && value.text() == word) return "";
    return at + " is none of the words";
  }
  const std::string type = schema["type"];
  if (type == "integer") {
    const auto number = value.as_int();
    return number && *number >= schema["minimum"] && *number <= schema["maximum"]
               ? ""
               : at + " is no such integer";
  }
  if (type == "number") return value.as_double() ? "" : at + " is no number";
  if (type == "boolean") return value.as_bool() ? "" : at + " is no boolean";
  if (type == "string") {
    if (!value.is_scalar()) return at + " is no string";
    return value.quoted() || (!value.as_double() && !value.as_bool()) ? ""
                                                                      : at + " would read as another type";
  }
  if (type == "array") {
    for (const Document& item : value.items())
      if (const std::string found = violation(schema["items"], item, at + "[]"); !found.empty()) return found;
    return value.is_list() ? "" : at + " is no list";
  }
  if (!value.is_map()) return at + " is no map";
  for (const auto& [key, entry] : value.entries()) {
    if (!schema["properties"].contains(key)) return at + "." + key + " is not in the schema";
    if (const std::string found = violation(schema["properties"][key], entry, at + "." + key); !found.empty())
      return found;
  }
  if (schema.contains("required"))
    for (const std::string key : schema["required"])
      if (value.find(key) == nullptr) return at + "." + key + " is missing";
  return "";
}

TEST(JobFile, ARoleThatSharesWeightsTakesItsOwnersLoss) {
  const auto read = [](const std::string& text) {
    return jobfile::read_job_file(parse_document(text, "run.yaml").value(), "run.yaml",
                                  test::source("tests/data/job-fields").string());
  };
  std::ifstream file(test::source("tests/data/job-fields/adapters.yaml"));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  Result<Job> job = read(text);
  ASSERT_TRUE(job) << job.error().text();
  EXPECT_EQ(job->role("actor")->loss.token_logprob, TokenLogprob::flash_cross_entropy);
  EXPECT_EQ(job->role("ref")->loss, job->role("actor")->loss);
  for (Role& role : job->roles)
    if (role.name == "ref") role.loss = {};  // stated otherwise, it is written and stays
  const Result<Job> again = read(write_yaml(jobfile::write_job_file(*job)));
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(again->role("ref")->loss, LossSpec{});
}

TEST(JobSchema, DescribesEveryFileThatIsWritten) {
  const nlohmann::json schema = nlohmann::json::parse(jobfile::job_schema());
  EXPECT_EQ(schema["$id"], "headroom.job/1");
  for (const std::string& path : test::examples("verl")) {
    const Result<ReadJob> read = read_job(std::vector<std::string>{path}, {});
    ASSERT_TRUE(read) << read.error().text();
    const Result<Document> written = parse_document(write_yaml(jobfile::write_job_file(read->job)), "job");
    EXPECT_EQ(violation(schema, *written, "job"), "") << path;
  }
  for (const std::string& path : test::examples("job"))
    EXPECT_EQ(violation(schema, *read_document(path), "job"), "") << path;
}

TEST(JobSchema, RefusesWhatTheReaderRefuses) {
  const nlohmann::json schema = nlohmann::json::parse(jobfile::job_schema());
  EXPECT_EQ(violation(schema, parse_document(kSmall, "").value(), "job"), "");
  std::string text = kSmall;
  text.replace(text.find("trained"), 7, "trian");
  EXPECT_THAT(violation(schema, parse_document(text, "").value(), "job"),
              HasSubstr("trian is not in the schema"));
}

}  // namespace
}  // namespace headroom
