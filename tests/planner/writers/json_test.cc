#include "planner/writers/json.h"

#include <gtest/gtest.h>

#include "planner/writers/writer.h"
#include "simulator/device/verdict.h"
#include "tests/planner/writers/sample.h"
#include "tests/support/json_schema.h"

namespace headroom::writers {
namespace {

using Json = nlohmann::json;

TEST(Json, NamesWhatLeavesTheVerdictOpen) {
  Report report = test::sample_report();
  EXPECT_FALSE(Json::parse(json(report)).contains("undetermined"));
  leave_undetermined(report, {"a.key=1"});
  const Json written = Json::parse(json(report));
  EXPECT_EQ(written["undetermined"], Json::array({"not modelled: a.key=1"}));
  EXPECT_EQ(test::schema_violation(Json::parse(report_schema()), written), "");
}

TEST(Json, FollowsItsSchema) {
  const Json schema = Json::parse(report_schema());
  EXPECT_EQ(test::schema_violation(schema, Json::parse(json(test::sample_report()))), "");
  Report full = test::sample_report();
  full.executor = "gpu";
  full.host_budget = kGiB;
  DeviceReport& device = full.devices[0];
  device.pool = "rollout";
  device.holders = {
      {.module = "lm_head", .operation = "matmul", .component = Component::logits, .bytes = 5, .blocks = 1}};
  device.phases[0].bounded = true;
  device.phases[0].expected_device = 3;
  device.phases[0].processes[0].reserved_after_empty = 7;
  device.phases[0].processes[0].out_of_memory = "tried";
  EXPECT_EQ(test::schema_violation(schema, Json::parse(json(full))), "");
}

TEST(Json, TheSchemaRefusesOtherKeys) {
  const Json schema = Json::parse(report_schema());
  Json value = Json::parse(json(test::sample_report()));
  value["devices"][0]["phases"][0]["at_peak_device"]["mystery"] = 1;
  EXPECT_EQ(test::schema_violation(schema, value),
            "/devices/0/phases/0/at_peak_device/mystery: \"mystery\" not in enum");
  value = Json::parse(json(test::sample_report()));
  value["devices"][0]["phases"][0].erase("peak_device");
  EXPECT_EQ(test::schema_violation(schema, value), "/devices/0/phases/0: lacks peak_device");
}

TEST(Json, ComponentMapsSumToTheirPeak) {
  const Json value = Json::parse(json(test::sample_report()));
  for (const Json& phase : value["devices"][0]["phases"]) {
    std::int64_t sum = 0;
    for (const Json& bytes : phase["at_peak_device"]) sum += bytes.get<std::int64_t>();
    EXPECT_EQ(sum, phase["peak_device"]);
  }
}

TEST(Json, BytesThatAreNoTextDoNotBreakIt) {
  Report report = test::sample_report();
  report.title = "\xff\xfe";
  EXPECT_NO_THROW(Json::parse(json(report)));
}

TEST(Writers, EveryFlagNamesOneWriter) {
  const Report report = test::sample_report();
  for (const Writer& writer : writers()) EXPECT_FALSE(writer.write({&report, 1}).empty()) << writer.flag;
}

}  // namespace
}  // namespace headroom::writers
