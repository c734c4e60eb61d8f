#include "planner/configuration/yaml_patch.h"

#include <gmock/gmock.h>

namespace headroom {
namespace {

using testing::HasSubstr;

std::string patched(const std::string& text, const std::vector<Setting>& settings) {
  const Result<Document> document = parse_document(text, "a.yaml");
  EXPECT_TRUE(document) << document.error().text();
  const Result<std::string> out = patch_yaml(text, *document, settings);
  return out ? *out : "error: " + out.error().text();
}

TEST(YamlPatch, ReplacesValuesWhereTheyStand) {
  EXPECT_EQ(patched("a:\n  b: 1  # one\n  'c': 'x' # two\n", {{"a.b", "2"}, {"a.c", "y"}}),
            "a:\n  b: 2  # one\n  'c': y # two\n");
  EXPECT_EQ(patched("a: {b: 1, c: [1, 2]}\n", {{"a.b", "7"}, {"a.c", "[3]"}}), "a: {b: 7, c: [3]}\n");
  EXPECT_EQ(patched("a:\nb: ~ # none\nc: null\n", {{"a", "1"}, {"b", "2"}, {"c", "3"}}),
            "a: 1\nb: 2 # none\nc: 3\n");
  EXPECT_EQ(patched("rate: 0.5\nseparate: 0.5\n", {{"rate", "0.25"}}), "rate: 0.25\nseparate: 0.5\n");
}

TEST(YamlPatch, PutsNewKeysBesideTheirNeighbours) {
  EXPECT_EQ(patched("a:\n  b: 1\n  d:\n    e: 2\nz: 1\n", {{"a.c", "3"}, {"a.d.f", "4"}, {"new.x.y", "5"}}),
            "a:\n  b: 1\n  c: 3\n  d:\n    e: 2\n    f: 4\nz: 1\nnew:\n  x:\n    y: 5\n");
}

TEST(YamlPatch, NamesListItems) {
  EXPECT_EQ(patched("roles:\n- name: a\n  n: 1\n- name: b\n  n: 2 # b's\n",
                    {{"roles.b.n", "5"}, {"roles.0.m", "6"}}),
            "roles:\n- name: a\n  m: 6\n  n: 1\n- name: b\n  n: 5 # b's\n");
}

TEST(YamlPatch, WritesTheWholeFileWhenALineWontDo) {
  EXPECT_EQ(patched("a:  # gone\n  - 1\n  - 2\nb: kept\n", {{"a", "[3,4]"}}), "a: [3, 4]\nb: kept\n");
  EXPECT_EQ(patched("a: {b: {c: 1}}\n", {{"a.b.d", "2"}}), "a:\n  b:\n    c: 1\n    d: 2\n");
}

TEST(YamlPatch, QuotesOnlyWhatWouldReadAsSomethingElse) {
  EXPECT_EQ(patched("a: 1\n", {{"a", "'12'"}}), "a: \"12\"\n");
  EXPECT_EQ(patched("a: 1\n", {{"a", "max_split_size_mb:256"}}), "a: max_split_size_mb:256\n");
  EXPECT_EQ(patched("a: 1\n", {{"a", "[x,'true']"}}), "a: [x, \"true\"]\n");
}

TEST(YamlPatch, RefusesKeysThroughValues) {
  EXPECT_THAT(patched("a: 1\n", {{"a.b", "2"}}),
              HasSubstr("error: a.b: b stands below a value that is no map"));
  EXPECT_THAT(patched("a: [{name: x}]\n", {{"a.y.z", "2"}}), HasSubstr("the list has no item y"));
}

}  // namespace
}  // namespace headroom
