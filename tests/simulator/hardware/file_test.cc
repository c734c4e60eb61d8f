#include "simulator/hardware/file.h"

#include <gmock/gmock.h>

#include "simulator/hardware/fields.h"
#include "simulator/hardware/library.h"

namespace headroom {
namespace {

using ::testing::HasSubstr;

Result<Document> known(const std::string& name) {
  HEADROOM_ASSIGN(const Hardware profile, find_hardware(name));
  return write_hardware(profile);
}

Result<Hardware> read(const std::string& text) {
  const auto document = parse_document(text, "card.yaml");
  return read_hardware(*document, "card.yaml", known);
}

std::string error(const std::string& text) {
  const auto result = read(text);
  return result ? "no error" : result.error().text();
}

TEST(WriteHardware, ReadsBackTheSame) {
  for (const Hardware& profile : hardware_profiles()) {
    const std::string text = write_yaml(write_hardware(profile));
    const auto again = read_hardware(parse_document(text, "again.yaml").value(), "again.yaml");
    ASSERT_TRUE(again) << again.error().text() << "\n" << text;
    EXPECT_EQ(write_yaml(write_hardware(*again)), text);
    EXPECT_EQ(again->total_memory, profile.total_memory);
    EXPECT_EQ(again->matrix.bf16, profile.matrix.bf16);
    EXPECT_EQ(again->matrix_efficiency, profile.matrix_efficiency);
    EXPECT_EQ(again->versions, profile.versions);
  }
}

TEST(ReadHardware, LikeGivesWhatIsNotStated) {
  const auto card = read(
      "name: My card\nlike: h100\nmemory: {total: 40GiB, source: s}\nhost: {memory: 1TiB, source: the "
      "vendor}\n");
  ASSERT_TRUE(card) << card.error().text();
  EXPECT_EQ(card->name, "My card");
  EXPECT_EQ(card->total_memory, 40 * kGiB);
  EXPECT_EQ(card->page, 2 * kMiB);
  EXPECT_EQ(card->host_memory, 1024 * kGiB);
  EXPECT_EQ(card->multiprocessors, 132);
  EXPECT_TRUE(card->short_names.empty());
  EXPECT_EQ(card->sources.at("memory"), "s");
  EXPECT_EQ(card->sources.at("nccl"), find_hardware("h100")->sources.at("nccl"));
}

TEST(ReadHardware, AnotherHostIsSlowerAsAWhole) {
  const Hardware base = *find_hardware("h100");
  const auto card = read("name: My card\nlike: h100\nhost_times: {relative: 1.5, token: 2e-3, source: s}\n");
  ASSERT_TRUE(card) << card.error().text();
  EXPECT_DOUBLE_EQ(card->host_times.launch, 1.5 * base.host_times.launch);
  EXPECT_DOUBLE_EQ(card->host_times.engine_step, 1.5 * base.host_times.engine_step);
  EXPECT_DOUBLE_EQ(card->host_times.token, 2e-3);  // stated
  EXPECT_DOUBLE_EQ(card->host_rates.pin, base.host_rates.pin);
  const auto again = read_hardware(write_hardware(*card), "again.yaml");
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_DOUBLE_EQ(again->host_times.launch, card->host_times.launch);
}

TEST(ReadHardware, EveryFigureIsNeeded) {
  for (const HardwareField& field : hardware_fields()) {
    Document document = write_hardware(*find_hardware("h100"));
    document.find(field.section) != nullptr&& document.find(field.section)->erase(field.key);
    const auto result = read_hardware(document, "f.yaml");
    const std::string key = std::string(field.section) + "." + std::string(field.key);
    if (field.optional) {
      EXPECT_TRUE(result) << key;
    } else {
      ASSERT_FALSE(result) << key;
      EXPECT_EQ(result.error().key, key);
    }
  }
}

TEST(ReadHardware, NamesLineAndKeyOfWhatIsWrong) {
  EXPECT_THAT(error("like: h100\n"), HasSubstr("name: expected the GPU's name"));
  EXPECT_THAT(error("name: c\nlike: h100\nmemroy: {total: 1GiB}\n"),
              HasSubstr("card.yaml:3: memroy: unknown key; nearest is memory"));
  EXPECT_THAT(error("name: c\nlike: h100\nlinks:\n  nvlnk: 1\n  source: s\n"),
              HasSubstr("card.yaml:4: links.nvlnk: unknown key; nearest is nvlink"));
  EXPECT_THAT(error("name: c\nlike: h100\nmemory: {total: 1GiB}\n"),
              HasSubstr("card.yaml:3: memory.source: "));
  EXPECT_THAT(error("name: c\nlike: h100\nmemory: {total: 80, source: s}\n"), HasSubstr("memory.total: "));
  EXPECT_THAT(error("name: c\nlike: h100\nrates: {fp32: 0, source: s}\n"), HasSubstr("rates.fp32: "));
  EXPECT_THAT(error("name: c\nlike: h100\nrates: {multiprocessors: 1.5, source: s}\n"),
              HasSubstr("rates.multiprocessors: "));
  EXPECT_THAT(error("name: c\nlike: h100\nhost_times: {relative: 0, source: s}\n"), HasSubstr("host_times.relative: expected"));
  EXPECT_THAT(error("name: c\nlike: h101\n"), HasSubstr("card.yaml:2: like: "));
  EXPECT_THAT(error("[1, 2]"), HasSubstr("expected a hardware profile"));
}

TEST(ReadHardware, RefusesCurvesInWhichMoreWorkTakesLessTime) {
  EXPECT_THAT(error("name: c\nlike: h100\nefficiency: {matrix: [[1e-5, 0.1], [1.1e-5, 0.9]], source: s}\n"),
              HasSubstr("more work takes more time"));
  EXPECT_THAT(error("name: c\nlike: h100\nefficiency: {matrix: [[1e-5, 0.1], [1e-6, 0.2]], source: s}\n"),
              HasSubstr("rising order"));
  EXPECT_THAT(error("name: c\nlike: h100\nefficiency: {matrix: [[1e-5, 1.5]], source: s}\n"),
              HasSubstr("fraction from 1e-06 to 1"));
  EXPECT_THAT(error("name: c\nlike: h100\nefficiency: {matrix: [1, 2], source: s}\n"),
              HasSubstr("efficiency.matrix"));
}

TEST(ReadHardware, ACircleEndsInAnError) {
  const auto self = [](const std::string&) -> Result<Document> {
    return parse_document("name: a\nlike: a\n", "a.yaml");
  };
  const auto result = read_hardware(*self(""), "a.yaml", self);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("circle"));
}

}  // namespace
}  // namespace headroom
