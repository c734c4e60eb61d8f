#include "planner/frameworks/nemo_rl/parents.h"

#include "tests/planner/frameworks/nemo_rl/run.h"

namespace headroom {
namespace {

using testing::HasSubstr;

Result<Layers> lay(const std::filesystem::path& file, std::vector<std::string> include = {}) {
  JobInput input;
  HEADROOM_ASSIGN(std::string text, read_text(file.string()));
  HEADROOM_ASSIGN(Document document, parse_document(text, file.string()));
  input.files.push_back({.path = file.string(), .document = std::move(document), .text = std::move(text)});
  JobOptions options;
  options.include_paths = std::move(include);
  return nemo_rl::lay_parents(input, options);
}

std::string value(const Result<Layers>& layers, const std::string& key) {
  if (!layers) return layers.error().text();
  const auto found = layers->get(key);
  if (!found) return found.error().text();
  return *found ? ((*found)->value.is_scalar() ? (*found)->value.text() : "not a scalar") : "nothing";
}

TEST(NemoParents, LaterParentsAndTheChildWin) {
  const auto root = test::written({{"a.yaml", "x: {one: 1, two: 1, three: 1}\n"},
                                   {"b.yaml", "x: {two: 2, three: 2}\n"},
                                   {"deep/child.yaml", "defaults: [../a.yaml, ../b.yaml]\nx: {three: 3}\n"}});
  const Result<Layers> layers = lay(root / "deep/child.yaml");
  EXPECT_EQ(value(layers, "x.one"), "1");
  EXPECT_EQ(value(layers, "x.two"), "2");
  EXPECT_EQ(value(layers, "x.three"), "3");
}

TEST(NemoParents, NullAndOverrideReplaceWholeMaps) {
  const auto root = test::written(
      {{"base.yaml", "opt: {lr: 1}\nmap: {a: 1, b: 1}\n"},
       {"child.yaml", "defaults: base.yaml\nopt: null\nmap: {_override_: true, b: 2}\n"}});
  const Result<Layers> layers = lay(root / "child.yaml");
  EXPECT_EQ(value(layers, "opt.lr"), "nothing");
  EXPECT_EQ(value(layers, "map.a"), "nothing");
  EXPECT_EQ(value(layers, "map.b"), "2");
}

TEST(NemoParents, ResolversAreEvaluatedLast) {
  const auto root = test::written(
      {{"base.yaml", "p: {n: 4, m: 8, product: '${mul:${p.n}, ${.m}}', rest: '${div:${p.product}, 3}'}\n"},
       {"child.yaml", "defaults: base.yaml\np: {n: 5}\n"}});
  const Result<Layers> layers = lay(root / "child.yaml");
  EXPECT_EQ(value(layers, "p.product"), "40");
  EXPECT_EQ(value(layers, "p.rest"), "13");
  EXPECT_THAT(value(lay(test::written({{"bad.yaml", "p: {x: '${mul:2,word}'}\n"}}) / "bad.yaml"), "p.x"),
              HasSubstr("the resolver mul expects numbers, found word"));
}

TEST(NemoParents, AParentIsFoundByItsNameAboveOrOnTheIncludePath) {
  const auto root = test::written({{"one/base.yaml", "x: 1\n"},
                                   {"one/recipes/llm/child.yaml", "defaults: ../../../else/base.yaml\n"},
                                   {"two/child.yaml", "defaults: ../nowhere/only.yaml\n"},
                                   {"three/only.yaml", "x: 3\n"}});
  EXPECT_EQ(value(lay(root / "one/recipes/llm/child.yaml"), "x"), "1");
  EXPECT_EQ(value(lay(root / "two/child.yaml", {(root / "three").string()}), "x"), "3");
  const std::string missing = value(lay(root / "two/child.yaml"), "x");
  EXPECT_THAT(missing, HasSubstr("child.yaml:1: defaults: expected the parent configuration ../nowhere/only.yaml"));
  EXPECT_THAT(missing, HasSubstr("tried " + (root / "nowhere/only.yaml").string()));
}

TEST(NemoParents, ACircleIsNamed) {
  const auto root = test::written({{"ring/a.yaml", "defaults: b.yaml\n"}, {"ring/b.yaml", "defaults: a.yaml\n"}});
  const std::string said = value(lay(root / "ring/a.yaml"), "x");
  EXPECT_THAT(said, HasSubstr("parents go in a circle"));
  EXPECT_THAT(said, HasSubstr("a.yaml -> "));
}

}  // namespace
}  // namespace headroom
