#include "models/document/document.h"

#include <gtest/gtest.h>

namespace headroom {
namespace {

TEST(ParseDocument, KeepsLinesAndKinds) {
  const auto doc = parse_document("a: 1\nb:\n  - x\n  - \"2\"\nc: {d: null}\n", "f.yaml");
  ASSERT_TRUE(doc) << doc.error().text();
  EXPECT_EQ(doc->find("a")->as_int(), 1);
  EXPECT_EQ(doc->find("b")->items()[1].line(), 4);
  EXPECT_FALSE(doc->find("b")->items()[1].as_int());
  EXPECT_TRUE(doc->find_path("c.d")->is_null());
}

TEST(ParseDocument, ReadsJson) {
  const auto doc =
      parse_document(R"({"hidden_size": 896, "rope": {"theta": 1e6}, "tie": true, "x": [1, 2.5]})", "c.json");
  ASSERT_TRUE(doc);
  EXPECT_EQ(doc->find("hidden_size")->as_int(), 896);
  EXPECT_EQ(doc->find_path("rope.theta")->as_int(), 1000000);
  EXPECT_EQ(doc->find("tie")->as_bool(), true);
}

TEST(ParseDocument, AliasBombEndsInAnError) {
  std::string text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 12; ++i) {
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) text += (j ? "," : "") + std::string("*a") + std::to_string(i - 1);
    text += "]\n";
  }
  const auto doc = parse_document(text, "bomb.yaml");
  ASSERT_FALSE(doc);
  EXPECT_NE(doc.error().message.find("alias"), std::string::npos);
}

TEST(ParseDocument, DeepNestingEndsInAnError) {
  EXPECT_FALSE(parse_document(std::string(100000, '['), "f"));
  EXPECT_FALSE(parse_document(
      [] {
        std::string text;
        for (int i = 0; i < 100000; ++i) text += "- ";
        return text;
      }(),
      "f"));
}

TEST(ParseDocument, AMapOfVeryManyKeysEndsInAnError) {
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "key" + std::to_string(i) + ": 1\n";
  EXPECT_TRUE(parse_document(text, "a.yaml"));
  const auto document = parse_document(text + "one: 1\n", "a.yaml");
  ASSERT_FALSE(document);
  EXPECT_EQ(document.error().text(), "a.yaml:10001: more than 10000 keys in one map");
}

TEST(ParseDocument, SyntaxErrorNamesTheLine) {
  const auto doc = parse_document("a: 1\nb: [1, 2\nc: 3\n", "f.yaml");
  ASSERT_FALSE(doc);
  EXPECT_GE(doc.error().line, 2);
}

TEST(ParseDocument, AKeyGivenTwiceNamesBothLines) {
  const Result<Document> read = parse_document("a:\n  b: 1\n  c: 2\n  b: 3\n", "x.yaml");
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().line, 4);
  EXPECT_NE(read.error().message.find("'b' in line 2"), std::string::npos) << read.error().message;
}

TEST(ParseDocument, ASecondDocumentIsNotPassedOver) {
  EXPECT_FALSE(parse_document("a: 1\n---\na: 2\n", "f.yaml"));
  EXPECT_TRUE(parse_document("---\na: 1\n...\n", "f.yaml"));
}

TEST(ParseDocument, MergesKeepWhatIsGiven) {
  const Result<Document> read = parse_document(
      "one: &one {a: 1, b: 1}\ntwo: &two {b: 2, c: 2}\nx:\n  <<: [*one, *two]\n  a: 3\n", "x.yaml");
  ASSERT_TRUE(read.has_value()) << read.error().text();
  for (const auto& [key, value] : {std::pair{"x.a", 3}, std::pair{"x.b", 1}, std::pair{"x.c", 2}})
    EXPECT_EQ(read->find_path(key)->as_int(), value) << key;
}

TEST(WriteYaml, ReadsBackTheSame) {
  const std::string text =
      "a: 1\nb:\n  c: \"1\"\n  d: [x, \"a, b\", null]\n  e: {}\nf:\n  - g: 1\n    h: 2\n  - i\n";
  const auto doc = parse_document(text, "f");
  ASSERT_TRUE(doc);
  const std::string written = write_yaml(*doc);
  const auto again = parse_document(written, "g");
  ASSERT_TRUE(again) << written;
  EXPECT_EQ(write_yaml(*again), written);
  EXPECT_FALSE(again->find_path("b.c")->as_int());
}

}  // namespace
}  // namespace headroom
