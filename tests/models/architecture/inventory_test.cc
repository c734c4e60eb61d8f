// Inventories recorded from Transformers: every tensor's name, shape and count, in the order of
// named_parameters.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "models/architecture/family.h"
#include "models/architecture/read.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

using Json = nlohmann::ordered_json;

const Json& recordings() {
  static const Json models = Json::parse(std::ifstream(test::data("models/inventory.json")))["models"];
  return models;
}

/// `name with * for layer indices [shape]` as the recording writes it.
std::string line(const Tensor& tensor) {
  static const std::regex index(R"(\.\d+\.)");
  std::string out = std::regex_replace(tensor.name, index, ".*.") + " [";
  for (std::int64_t size : tensor.shape) out += (out.back() == '[' ? "" : ", ") + std::to_string(size);
  return out + "]";
}

std::vector<std::pair<std::string, int>> lines(const Architecture& model) {
  std::vector<std::pair<std::string, int>> out;
  std::map<std::string, size_t> at;
  for (const Tensor& tensor : model.tensors) {
    if (tensor.buffer || !tensor.tied_to.empty()) continue;
    const std::string text = line(tensor);
    const auto [known, fresh] = at.try_emplace(text, out.size());
    if (fresh) out.emplace_back(text, 0);
    ++out[known->second].second;
  }
  return out;
}

class Inventory : public testing::TestWithParam<std::string> {};

TEST_P(Inventory, EqualsTheRecordingTensorByTensor) {
  const Json& recorded = recordings()[GetParam()];
  const auto document = parse_document(recorded["config"].dump(), "config.json");
  ASSERT_TRUE(document) << document.error().text();
  const auto model = make_architecture(*document, "config.json");
  ASSERT_TRUE(model) << model.error().text();
  std::vector<std::pair<std::string, int>> expected;
  for (const auto& [text, count] : recorded["tensors"].items()) expected.emplace_back(text, count.get<int>());
  EXPECT_EQ(lines(*model), expected);
  EXPECT_EQ(model->parameters(), recorded["total"].get<std::int64_t>());
  EXPECT_EQ(model->decoder.tied_embeddings, recorded["tied"].get<bool>());
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const auto& [name, model] : recordings().items()) {
    out.push_back(name);
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Recorded, Inventory, testing::ValuesIn(names()), [](const auto& model) {
  return std::regex_replace(model.param, std::regex("[^A-Za-z0-9]"), "_");
});

}  // namespace
}  // namespace headroom
