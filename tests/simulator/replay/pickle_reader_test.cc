#include "simulator/replay/pickle_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/replay/pickle_opcodes.h"
#include "simulator/replay/pickle_writer.h"

namespace headroom::replay {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;

Result<PickleValue> read(PickleHeap& heap, const std::string& bytes, const PickleLimits& limits = {}) {
  ByteSource source = ByteSource::memory(bytes);
  return PickleReader(source, heap, nullptr, limits).read();
}

/// A protocol 4 pickle around `body`.
std::string pickle(const std::string& body) {
  return "\x80\x04" + body + ".";
}

std::string error_of(const std::string& bytes, const PickleLimits& limits = {}) {
  PickleHeap heap;
  auto result = read(heap, bytes, limits);
  return result ? "no error" : result.error().text();
}

TEST(PickleReader, ReadsNumbers) {
  PickleHeap heap;
  const auto integer = [&](const std::string& body) {
    return heap.integer(read(heap, pickle(body)).value());
  };
  EXPECT_EQ(integer("K\xff"), 255);
  EXPECT_EQ(integer("M\xff\xff"), 65535);
  EXPECT_EQ(integer("J\xfe\xff\xff\xff"), -2);
  EXPECT_EQ(integer("\x8a\0"s), 0);
  EXPECT_EQ(integer("\x8a\x01\xff"), -1);
  EXPECT_EQ(integer("\x8a\x02\xff\0"s), 255);
  EXPECT_EQ(integer("\x8a\x06\0\0\0\0\0\x7f"s), std::int64_t{0x7f} << 40);
  // Beyond the 60 bits of a value: 2^62, and 2^64 - 1 as Python writes it, which wraps.
  EXPECT_EQ(integer("\x8a\x08\0\0\0\0\0\0\0\x40"s), std::int64_t{1} << 62);
  EXPECT_EQ(integer("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0"s), -1);
  EXPECT_EQ(integer("\x8b\x02\0\0\0\x00\x01"s), 256);
  EXPECT_EQ(heap.real(read(heap, pickle("G\x3f\xe8\0\0\0\0\0\0"s)).value()), 0.75);
  EXPECT_THAT(error_of(pickle("\x8a\x0a\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01")),
              HasSubstr("beyond 64 bits"));
  EXPECT_THAT(error_of(pickle("\x8a\x09\x01\x01\x01\x01\x01\x01\x01\x01\x01")), HasSubstr("beyond 64 bits"));
}

TEST(PickleReader, KeepsSharedObjectsShared) {
  PickleHeap heap;
  // [a, a] where a is a list that grows after it was shared.
  const auto list = read(heap, pickle("]\x94(]\x94h\x01"s + "K\x07"
                                                            "ae"))
                        .value();
  const auto items = heap.list(list);
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0], items[1]);
  EXPECT_EQ(heap.list(heap.value(items[0])).size(), 1u);
}

TEST(PickleReader, ReadsListsTuplesAndDicts) {
  PickleHeap heap;
  const auto dict = read(heap, pickle("}(\x8c\x01"
                                      "a(K\x01K\x02K\x03t\x8c\x01"
                                      "bN\x8c\x01"
                                      "c\x88u"))
                        .value();
  const auto pairs = heap.pairs(dict);
  ASSERT_EQ(pairs.size(), 3u);
  EXPECT_EQ(heap.string(pairs[0].first), "a");
  EXPECT_EQ(heap.tuple(pairs[0].second).size(), 3u);
  EXPECT_TRUE(pairs[1].second.is(PickleKind::none));
  EXPECT_EQ(pairs[2].second, PickleValue(PickleKind::boolean, 1));
}

TEST(PickleReader, RefusesByNameWhatWouldImportOrCall) {
  const std::pair<std::string, const char*> cases[] = {{"cos\nsystem\n", "GLOBAL"},
                                                       {"\x8c\x02os\x8c\x06system\x93", "STACK_GLOBAL"},
                                                       {"K\x01K\x02R", "REDUCE"},
                                                       {"K\x01K\x02"
                                                        "b",
                                                        "BUILD"},
                                                       {"(ios\nsystem\n", "INST"},
                                                       {"(o", "OBJ"},
                                                       {"K\x01K\x02\x81", "NEWOBJ"},
                                                       {"K\x01K\x02K\x03\x92", "NEWOBJ_EX"},
                                                       {"\x82\x01", "EXT1"},
                                                       {"\x83\x01\x01", "EXT2"},
                                                       {"\x84\x01\x01\x01\x01", "EXT4"},
                                                       {"Pid\n", "PERSID"},
                                                       {"K\x01Q", "BINPERSID"}};
  for (const auto& [body, name] : cases) {
    EXPECT_THAT(error_of(pickle(body)), HasSubstr("opcode "s + name + " would import or call"));
  }
}

TEST(PickleReader, NamesOpcodesThatSnapshotsDoNotNeed) {
  for (const auto& [body, name] :
       {std::pair{"I1\n", "INT"}, {"B\1\0\0\0a", "BINBYTES"}, {"2", "DUP"}, {"\x8f", "EMPTY_SET"}})
    EXPECT_THAT(error_of(pickle(body)), HasSubstr("opcode "s + name));
  EXPECT_THAT(error_of(pickle("\xff")), HasSubstr("0xff is no pickle opcode"));
}

TEST(PickleReader, NamesWhatIsNoPickle) {
  EXPECT_THAT(error_of(""), HasSubstr("the file is empty"));
  EXPECT_THAT(error_of("PK\x03\x04"), HasSubstr("zip archive"));
  EXPECT_THAT(error_of("{}"), HasSubstr("0x80"));
  EXPECT_THAT(error_of("\x80\x01N."), HasSubstr("protocol 1"));
  EXPECT_THAT(error_of("\x80\x04N.x"), HasSubstr("more data follows"));
  EXPECT_EQ(error_of("\x80\x04N.\0\0"s), "no error");
}

TEST(PickleReader, BoundsLengthsNestingAndMemory) {
  EXPECT_THAT(error_of(pickle("\x8d\xff\xff\xff\xff\xff\xff\xff\x7f")),
              HasSubstr("a string of 9223372036854775807 bytes"));
  EXPECT_THAT(error_of(pickle("X\xff\xff\xff\xff")), HasSubstr("a string of 4294967295 bytes"));
  EXPECT_THAT(error_of(pickle("X\x10\0\0\0short"s)), HasSubstr("ends in the middle"));
  EXPECT_THAT(error_of(pickle("\x8b\xff\xff\xff\x7f")), HasSubstr("an integer of 2147483647 bytes"));
  EXPECT_THAT(error_of(pickle(std::string(1'000'000, '('))), HasSubstr("containers inside each other"));
  EXPECT_THAT(error_of(pickle("Nr\xff\xff\xff\xff")),
              HasSubstr("memoizes object 4294967295 before object 0"));
  EXPECT_THAT(error_of(pickle("j\x05\0\0\0"s)), HasSubstr("object 5 of the memo, which holds 0"));
  PickleLimits small;
  small.memory = 1 << 16;
  small.stack = 1000;
  EXPECT_THAT(error_of(pickle(std::string(2000, 'N')), small),
              HasSubstr("more than 1000 values on the stack"));
  small.stack = 1 << 30;
  EXPECT_THAT(error_of(pickle(std::string(1'500'000, ']')), small), HasSubstr("is not a memory snapshot"));
  std::string pops;
  for (int i = 0; i < 1'500'000; ++i) pops += "]0";
  EXPECT_THAT(error_of(pickle(pops), small), HasSubstr("is not a memory snapshot"));
}

TEST(PickleReader, DeepNestingWithoutMarksIsHarmless) {
  std::string nested(500'000, ']');
  nested += std::string(499'999, 'a');
  EXPECT_EQ(error_of(pickle(nested)), "no error");
}

TEST(PickleReader, CyclesAreReferences) {
  PickleHeap heap;
  const auto list = read(heap, pickle("]\x94h\x00"
                                      "a"s))
                        .value();
  EXPECT_EQ(heap.value(heap.list(list)[0]), list);
  const auto dict = read(heap, pickle("}\x94(\x8c\x01kh\x00u"s)).value();
  EXPECT_EQ(heap.pairs(dict)[0].second, dict);
}

TEST(PickleReader, StackMisuseIsAnError) {
  for (const char* body :
       {"a",   "e",   "s",     "u",    "0",     "1",    "\x85",  "\x86", "t", "l",      "d",     "\x94",
        "N(0", "N(a", "](Nae", "N(Ne", "N(NNu", "}(Nu", "}(]Nu", "NN",   "(", "(N(NNe", "]((Nee"})
    EXPECT_NE(error_of(pickle(body)), "no error") << body;
}

TEST(PickleReader, ReadsAcrossWindowBorders) {
  // Strings of many lengths so that opcodes and strings fall on every offset of the window's border.
  std::string body = "](";
  for (int i = 0; i < 3000; ++i) {
    const auto length = static_cast<std::size_t>(4000 + i % 97);
    body += "X" + std::string{static_cast<char>(length & 255), static_cast<char>(length >> 8), 0, 0} +
            std::string(length, static_cast<char>('a' + i % 26));
  }
  body += "e";
  PickleHeap heap;
  const auto list = read(heap, pickle(body));
  ASSERT_TRUE(list) << list.error().text();
  ASSERT_EQ(heap.list(*list).size(), 3000u);
  EXPECT_EQ(heap.string(heap.value(heap.list(*list)[2999]))->size(), 4000u + 2999 % 97);
}

TEST(PickleWriter, IsReadBack) {
  std::string bytes;
  PickleWriter writer([&](std::string_view piece) {
    bytes += piece;
    return Status{};
  });
  const std::int64_t numbers[] = {0,         255,       256,       65535,     65536,          -1,
                                  INT32_MIN, INT32_MAX, INT64_MIN, INT64_MAX, 140373152235520};
  writer.begin_list();
  writer.begin_items();
  for (const std::int64_t n : numbers) writer.integer(n);
  writer.string("é");
  writer.string(std::string(300, 'x'));
  writer.string("é");
  writer.real(0.1);
  writer.pair(1, 2);
  writer.end_list_items();
  ASSERT_TRUE(writer.finish());
  PickleHeap heap;
  const auto items = heap.list(read(heap, bytes).value());
  ASSERT_EQ(items.size(), std::size(numbers) + 5);
  for (std::size_t i = 0; i < std::size(numbers); ++i)
    EXPECT_EQ(heap.integer(heap.value(items[i])), numbers[i]);
  EXPECT_EQ(items[std::size(numbers)], items[std::size(numbers) + 2]);
  EXPECT_EQ(heap.real(heap.value(items[std::size(numbers) + 3])), 0.1);
}

}  // namespace
}  // namespace headroom::replay
