#include "models/architecture/checkpoint.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/models/support/models.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& file, const std::string& text) {
    std::ofstream(folder_ / file, std::ios::binary) << text;
  }

  /// A safetensors file of zero-length data: its header alone is read.
  void write_header(const std::string& file, const Json& header) {
    const std::string json = header.dump();
    std::string prefix;
    for (size_t i = 0, length = json.size(); i < 8; ++i, length >>= 8)
      prefix += static_cast<char>(length & 0xff);
    write(file, prefix + json);
  }

  /// Entries for all parameters of the model, as its checkpoint would hold them.
  static Json header_of(const Architecture& model) {
    Json header = {{"__metadata__", {{"format", "pt"}}}};
    std::int64_t at = 0;
    for (const Tensor& tensor : model.tensors) {
      if (tensor.buffer || !tensor.tied_to.empty()) continue;
      const std::int64_t end = at + bytes_of(tensor.dtype, tensor.count());
      header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {at, end}}};
      at = end;
    }
    return header;
  }

  std::vector<std::string> differences(const Architecture& model) {
    const auto checkpoint = read_checkpoint(folder_.string());
    if (!checkpoint) return {checkpoint.error().text()};
    return *checkpoint ? compare_checkpoint(model, **checkpoint) : std::vector<std::string>{"none"};
  }

  std::filesystem::path folder_ = test::scratch() / "headroom-checkpoint";
  Architecture model_ = test::model_of(test::kSmallQwenMoe);
};

TEST_F(CheckpointTest, AgreesWithItsOwnModel) {
  write_header("model.safetensors", header_of(model_));
  EXPECT_THAT(differences(model_), IsEmpty());
}

TEST_F(CheckpointTest, TakesExpertsStoredOneByOne) {
  Json header = header_of(model_);
  header.erase("model.layers.2.mlp.experts.gate_up_proj");
  for (int expert = 0; expert < 16; ++expert)
    for (const char* name : {"gate_proj", "up_proj"})
      header["model.layers.2.mlp.experts." + std::to_string(expert) + "." + name + ".weight"] = {
          {"dtype", "F32"}, {"shape", {32, 64}}, {"data_offsets", {0, 8192}}};
  write_header("model.safetensors", header);
  EXPECT_THAT(differences(model_), IsEmpty());
}

TEST_F(CheckpointTest, TellsWhichLayerDiffers) {
  Json header = header_of(model_);
  header["model.layers.3.self_attn.q_proj.weight"]["shape"] = {63, 64};
  header.erase("model.norm.weight");
  header["model.layers.8.eh_proj.weight"] = {{"dtype", "F32"}, {"shape", {10}}, {"data_offsets", {0, 40}}};
  write_header("model.safetensors", header);
  EXPECT_THAT(differences(model_), ElementsAre(HasSubstr("outside layers: -64 elements"),
                                               HasSubstr("layer 3: -64"), HasSubstr("layer 8: +10")));
}

TEST_F(CheckpointTest, ComparesBytesWhenOnlyAnIndexIsThere) {
  const auto index = [](std::int64_t bytes) {
    return Json{{"metadata", {{"total_size", bytes}}},
                {"weight_map", {{"model.norm.weight", "model-1.safetensors"}}}}
        .dump();
  };
  write("model.safetensors.index.json", index(4 * model_.parameters()));
  EXPECT_THAT(differences(model_), IsEmpty());
  write("model.safetensors.index.json", index(2 * model_.parameters()));
  EXPECT_THAT(differences(model_), ElementsAre(HasSubstr("its weights are")));
}

TEST_F(CheckpointTest, IsAbsentWithoutFiles) {
  EXPECT_THAT(differences(model_), ElementsAre("none"));
}

TEST_F(CheckpointTest, RefusesMalformedFiles) {
  write("model.safetensors", "short");
  EXPECT_THAT(differences(model_), ElementsAre(HasSubstr("fewer than 8 bytes")));
  write("model.safetensors", std::string(8, '\xff'));
  EXPECT_THAT(differences(model_), ElementsAre(HasSubstr("at most 100 MiB")));
  write("model.safetensors", std::string("\x20\0\0\0\0\0\0\0{", 9));
  EXPECT_THAT(differences(model_), ElementsAre(HasSubstr("end of the file")));
  write_header("model.safetensors", Json{{"a", {{"shape", {-1}}}}});
  EXPECT_THAT(differences(model_), ElementsAre(HasSubstr("expected shape and data_offsets of a")));
  write("model.safetensors.index.json", R"({"weight_map": {"a": "../../etc/passwd"}})");
  EXPECT_THAT(differences(model_), ElementsAre(HasSubstr("expected a file name for a")));
}

}  // namespace
}  // namespace headroom
