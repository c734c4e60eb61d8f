#include "planner/configuration/layers.h"

#include <gmock/gmock.h>

#include "planner/configuration/value_grammar.h"

namespace headroom {
namespace {

using testing::HasSubstr;

/// Layers of a defaults text, one file `run.yaml`, and overrides.
Layers layers(const char* defaults, const char* file, std::initializer_list<const char*> overrides = {}) {
  Layers out;
  out.set_defaults(parse_document(defaults, "defaults").value());
  out.add_file("run.yaml", parse_document(file, "run.yaml").value());
  for (const char* text : overrides) {
    const Status status = out.apply(*parse_override(text, "--set"));
    EXPECT_TRUE(status) << status.error().text();
  }
  return out;
}

std::string value(const Layers& in, std::string_view key) {
  const auto found = in.get(key);
  if (!found) return "error: " + found.error().text();
  return *found ? format_value((*found)->value) : "absent";
}

TEST(Layers, MapsMergeAndEverythingElseReplaces) {
  const Layers in =
      layers("{a: {x: 1, y: 2, z: [1, 2]}, b: 3}", "a:\n  y: 20\n  z: [9]\n", {"+a.w=4", "b=5"});
  EXPECT_EQ(value(in, "a.x"), "1");
  EXPECT_EQ(value(in, "a.y"), "20");
  EXPECT_EQ(value(in, "a.z"), "[9]");
  EXPECT_EQ(value(in, "a"), "{x:1,y:20,z:[9],w:4}");
  EXPECT_EQ(value(in, "b"), "5");
  EXPECT_EQ(value(in, "c"), "absent");
}

TEST(Layers, ANullOrScalarHidesWhatLiesBelow) {
  const Layers in = layers("{a: {x: 1}, b: {x: 1}}", "a: null\nb: off\n");
  EXPECT_EQ(value(in, "a.x"), "absent");
  EXPECT_EQ(value(in, "a"), "null");
  EXPECT_EQ(value(in, "b.x"), "absent");
}

TEST(Layers, RememberPlaces) {
  const Layers in = layers("{a: {x: 1, y: 2}}", "a:\n\n  y: 20\n", {"+a.z=1"});
  EXPECT_EQ((*in.get("a.y"))->file, "run.yaml");
  EXPECT_EQ((*in.get("a.y"))->line, 3);
  EXPECT_FALSE((*in.get("a.x"))->given);
  EXPECT_EQ((*in.get("a.z"))->file, "--set");
  EXPECT_TRUE(in.given("a.y"));
  EXPECT_FALSE(in.given("a.x"));
}

TEST(Layers, OverridesDeleteAndAddAgain) {
  const Layers in = layers("{a: {x: 1, y: 2}}", "a: {x: 10, z: {q: 1}}", {"~a.x", "~a.z", "+a.z.r=2"});
  EXPECT_EQ(value(in, "a.x"), "absent");
  EXPECT_EQ(value(in, "a.z.q"), "absent");
  EXPECT_EQ(value(in, "a.z.r"), "2");
  EXPECT_EQ(value(in, "a.z"), "{r:2}");
  EXPECT_EQ(value(in, "a"), "{y:2,z:{r:2}}");
}

TEST(Layers, ADictOverrideMergesIntoWhatIsThere) {
  const Layers in = layers("{}", "a: {x: 1}", {"a={y: 2}", "a={z: 3}", "a.y=5"});
  EXPECT_EQ(value(in, "a"), "{x:1,y:5,z:3}");
}

TEST(Layers, AnOverrideBelowAScalarIsAnError) {
  Layers in = layers("{a: 1}", "b: 2");
  const Status status = in.apply(*parse_override("b.c=1", "--set"));
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().text(), HasSubstr("--set: b.c: b is no map"));
}

TEST(Layers, ReferencesResolveAfterOverrides) {
  const Layers in = layers(
      "{n: 1, a: {micro: '${oc.select:.budget,7}', budget: '${n}', missing: '${oc.select:no.such,512}'}}",
      "a: {deep: {up: '${..budget}', here: '${.up}'}}", {"n=4"});
  EXPECT_EQ(value(in, "a.budget"), "4");
  EXPECT_EQ(value(in, "a.micro"), "4");
  EXPECT_EQ(value(in, "a.missing"), "512");
  EXPECT_EQ(value(in, "a.deep.up"), "4");
  EXPECT_EQ(value(in, "a.deep.here"), "4");
}

TEST(Layers, ReferencesKeepTypesAloneAndJoinInsideText) {
  const Layers in = layers("{}",
                           "n: 2\nb: true\nl: [1, '${n}']\ntwo: '${b}'\npath: runs/${n}-${b}\nnest: "
                           "'${oc.select:x,${oc.select:y,${n}}}'\n"
                           "kept: 'a\\${b}'\nempty: '${oc.select:x}'\nmap: '${oc.select:x,{}}'\n");
  EXPECT_EQ(value(in, "two"), "true");
  EXPECT_EQ(value(in, "path"), "runs/2-true");
  EXPECT_EQ(value(in, "nest"), "2");
  EXPECT_EQ(value(in, "l"), "[1,2]");
  EXPECT_EQ(value(in, "empty"), "null");
  EXPECT_EQ(value(in, "map"), "{}");
}

TEST(Layers, KeysContinueBelowAReference) {
  const Layers in =
      layers("{actor: {opt: {x: 1}}, ref: {opt: '${oc.select:actor.opt,{}}'}}", "actor: {opt: {y: 2}}");
  EXPECT_EQ(value(in, "ref.opt.x"), "1");
  EXPECT_EQ(value(in, "ref.opt.y"), "2");
  EXPECT_EQ(value(in, "ref.opt.z"), "absent");
}

TEST(Layers, CyclesAndNothingsAreErrorsAtTheirPlace) {
  const Layers in = layers("{}",
                           "a: ${b}\nb: ${c.d}\nc: {d: '${a}'}\nself: x${self}\nnone: ${no.such}\nup: "
                           "${....x}\nm: ???\nr: ${m}\n");
  EXPECT_THAT(value(in, "a"), HasSubstr("circle: a -> b -> c.d -> a"));
  EXPECT_THAT(value(in, "self"), HasSubstr("run.yaml:4: self: references go in a circle"));
  EXPECT_THAT(value(in, "none"), HasSubstr("run.yaml:5: none: ${no.such} names a key that does not exist"));
  EXPECT_THAT(value(in, "up"), HasSubstr("climbs above the root"));
  EXPECT_THAT(value(in, "r"), HasSubstr("m is mandatory"));
}

TEST(Layers, EnvironmentVariablesComeFromTheLaunch) {
  Layers in = layers("{}",
                     "a: ${oc.env:HEADROOM_TEST_GPUS}\nb: ${oc.env:HEADROOM_NOT_SET,3}\nc: "
                     "${oc.env:HEADROOM_NOT_SET}\nd: ${my.resolver:1}\n");
  in.set_environment({{"HEADROOM_TEST_GPUS", "16"}});
  EXPECT_EQ(value(in, "a"), "'16'");
  EXPECT_EQ(value(in, "b"), "3");
  EXPECT_THAT(value(in, "c"),
              HasSubstr("run.yaml:3: c: the environment variable HEADROOM_NOT_SET is not set"));
  EXPECT_THAT(value(in, "d"), HasSubstr("the resolver my.resolver"));
}

TEST(Layers, GrowingReferencesEnd) {
  std::string file = "k0: xxxxxxxxxxxxxxxx\n";
  for (int i = 1; i < 60; ++i)
    file +=
        "k" + std::to_string(i) + ": ${k" + std::to_string(i - 1) + "}${k" + std::to_string(i - 1) + "}\n";
  EXPECT_THAT(value(layers("{}", file.c_str()), "k59"), HasSubstr("error"));
}

TEST(Layers, ListsTheLeavesThatWereGiven) {
  const Layers in = layers("{a: {x: 1}}", "a: {y: 2, z: {}}\nb: [1]\n", {"a.y=3"});
  std::string keys;
  for (const Layers::Leaf& leaf : in.given_leaves()) keys += leaf.key + "@" + *leaf.file + " ";
  EXPECT_EQ(keys, "a.y@--set a.z@run.yaml b@run.yaml ");
}

}  // namespace
}  // namespace headroom
