// Families without a recorded inventory: the parameter totals that the hub shows for public models.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "models/architecture/read.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

TEST(PublishedTotals, AreThoseOfTheInventories) {
  const auto models = nlohmann::json::parse(std::ifstream(test::data("models/published-totals.json")));
  ASSERT_GE(models.size(), 20U);
  for (const auto& recorded : models) {
    const auto document = parse_document(recorded["config"].dump(), "config.json");
    ASSERT_TRUE(document) << document.error().text();
    const auto model = make_architecture(*document, "config.json");
    ASSERT_TRUE(model) << recorded["name"] << ": " << model.error().text();
    // Layers that predict further tokens: published with the model, not made by Transformers.
    const std::int64_t beside = recorded.value("beside", std::int64_t{0});
    EXPECT_EQ(model->parameters() + beside, recorded["total"].get<std::int64_t>()) << recorded["name"];
  }
}

}  // namespace
}  // namespace headroom
