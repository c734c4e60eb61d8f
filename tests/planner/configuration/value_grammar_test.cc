#include "planner/configuration/value_grammar.h"

#include <gmock/gmock.h>

namespace headroom {
namespace {

using testing::HasSubstr;

/// The value with its type spelled out: s'text', 12, true, null, [..], {..}.
std::string shape(const Document& value) {
  switch (value.kind()) {
    case Document::Kind::null:
      return "null";
    case Document::Kind::scalar:
      return value.quoted() ? "s'" + value.text() + "'" : value.text();
    case Document::Kind::list: {
      std::string out = "[";
      for (const Document& item : value.items()) out += (out.size() > 1 ? "," : "") + shape(item);
      return out + "]";
    }
    case Document::Kind::map: {
      std::string out = "{";
      for (const auto& [key, entry] : value.entries())
        out += (out.size() > 1 ? "," : "") + key + ":" + shape(entry);
      return out + "}";
    }
  }
  return "?";
}

std::string parsed(std::string_view text) {
  const Result<Document> value = parse_value(text);
  return value ? shape(*value) : "error: " + value.error().message;
}

// Expected values are those that Hydra 1.3's documentation gives for its grammar.
TEST(ValueGrammar, TypesWholeWords) {
  EXPECT_EQ(parsed("12"), "12");
  EXPECT_EQ(parsed("-3"), "-3");
  EXPECT_EQ(parsed("1e-6"), "1e-6");
  EXPECT_EQ(parsed("1.5"), "1.5");
  EXPECT_EQ(parsed("1_000"), "1_000");
  EXPECT_EQ(parsed("True"), "true");
  EXPECT_EQ(parsed("FALSE"), "false");
  EXPECT_EQ(parsed("null"), "null");
  EXPECT_EQ(parsed(""), "s''");
  EXPECT_EQ(parsed("  7  "), "7");
  EXPECT_EQ(parsed("inf"), "inf");
}

TEST(ValueGrammar, EverythingElseIsText) {
  EXPECT_EQ(parsed("fsdp2"), "s'fsdp2'");
  EXPECT_EQ(parsed("Qwen/Qwen2.5-7B-Instruct"), "s'Qwen/Qwen2.5-7B-Instruct'");
  EXPECT_EQ(parsed("$HOME/models"), "s'$HOME/models'");
  EXPECT_EQ(parsed("a b  c "), "s'a b  c'");
  EXPECT_EQ(parsed("10:20"), "s'10:20'");
  EXPECT_EQ(parsed("yes"), "s'yes'");  // a word of YAML 1.1, not of Hydra
  EXPECT_EQ(parsed("max_split_size_mb:256"), "s'max_split_size_mb:256'");
}

TEST(ValueGrammar, QuotesMakeText) {
  EXPECT_EQ(parsed("'12'"), "s'12'");
  EXPECT_EQ(parsed("\"a, [b\""), "s'a, [b'");
  EXPECT_EQ(parsed("'it\\'s'"), "s'it's'");
  EXPECT_EQ(parsed("a\\,b"), "s'a,b'");
  EXPECT_EQ(parsed("\\[x\\]"), "s'[x]'");
}

TEST(ValueGrammar, NestsListsAndDicts) {
  EXPECT_EQ(parsed("[]"), "[]");
  EXPECT_EQ(parsed("['model','optimizer', extra]"), "[s'model',s'optimizer',s'extra']");
  EXPECT_EQ(parsed("[1,[2,3],{a: 4}]"), "[1,[2,3],{a:4}]");
  EXPECT_EQ(parsed("{recompute: full, n: 1, deep: {x: null}}"), "{recompute:s'full',n:1,deep:{x:null}}");
  EXPECT_EQ(parsed("{}"), "{}");
}

TEST(ValueGrammar, KeepsInterpolationsWhole) {
  EXPECT_EQ(parsed("${data.max_prompt_length}"), "s'${data.max_prompt_length}'");
  EXPECT_EQ(parsed("[${a,b},2]"), "[s'${a,b}',2]");
  EXPECT_EQ(parsed("x/${oc.select:a.b,{}}/y"), "s'x/${oc.select:a.b,{}}/y'");
}

TEST(ValueGrammar, Casts) {
  EXPECT_EQ(parsed("int(3.7)"), "3");
  EXPECT_EQ(parsed("str(3)"), "s'3'");
  EXPECT_EQ(parsed("float(2)"), "2");
  EXPECT_EQ(parsed("bool(0)"), "false");
}

TEST(ValueGrammar, RefusesWhatIsNoSingleValue) {
  EXPECT_THAT(parsed("1,2"), HasSubstr("sweep"));
  EXPECT_THAT(parsed("[1,2"), HasSubstr("not closed"));
  EXPECT_THAT(parsed("{a:1"), HasSubstr("not closed"));
  EXPECT_THAT(parsed("'abc"), HasSubstr("not closed"));
  EXPECT_THAT(parsed("${abc"), HasSubstr("not closed"));
  EXPECT_THAT(parsed("[1]x"), HasSubstr("expected the end"));
  EXPECT_THAT(parsed("range(1,3)"), HasSubstr("not supported"));
  EXPECT_THAT(parsed(std::string(100'000, '[')), HasSubstr("nested deeper"));
}

TEST(ValueGrammar, WritesWhatItReads) {
  for (const char* text :
       {"12", "1e-6", "true", "null", "''", "'12'", "fsdp2", "a/b-c", "'x, y'", "[1,'2',[a]]",
        "{a:1,b:[true,null]}", "'it\\'s \\\\ odd'", "${a.b}", "' padded '"}) {
    const Result<Document> value = parse_value(text);
    ASSERT_TRUE(value) << text;
    EXPECT_EQ(shape(*parse_value(format_value(*value))), shape(*value)) << text;
  }
}

}  // namespace
}  // namespace headroom
