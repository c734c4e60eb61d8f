#include "validator/profile/host_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "simulator/hardware/library.h"

namespace headroom::gpu {
namespace {

using testing::HasSubstr;

/// What host_times.py prints where every piece takes `times` as long as on the profiles' machine, but those of `other`.
nlohmann::json printed(double times, double product = 1) {
  return {{"host", "Some Processor"},
          {"cores", 8},
          {"versions", {{"pytorch", "2.11.0"}, {"python", "3.12.3"}}},
          {"seconds",
           {{"module", times * 1.82e-6},        {"multinomial", times * 154e-6},
            {"add", times * 9.56e-6},           {"mul", times * 11e-6},
            {"silu", times * 9.56e-6},           {"cast", times * 11.3e-6},
            {"cat", times * 11.5e-6},           {"softmax", times * 20.7e-6},
            {"linear", product * times * 24.5e-6}, {"backward mul", times * 24.6e-6},
            {"backward silu", times * 19.5e-6}, {"backward softmax", times * 22.8e-6},
            {"backward linear", times * 54.6e-6}, {"checkpoint", times * 167e-6},
            {"norm", 5e-6},                     {"step foreach", 12e-6},
            {"step fused", 4e-6},               {"step loop", 40e-6}}}};
}

Hardware fitted(const std::string& text) {
  Measurements measured;
  const Status read = read_host_times(text, measured);
  EXPECT_TRUE(read) << (read ? "" : read.error().text());
  Hardware out = find_hardware("h200").value();
  std::vector<std::string> notes;
  fit_host_times(measured, out, notes);
  return out;
}

TEST(HostTimes, FollowTheMeasuredMachine) {
  const HostTimes base = find_hardware("h200")->host_times;
  const Hardware twice = fitted(printed(2).dump());
  EXPECT_NEAR(twice.host_times.allocation, 2 * base.allocation, 1e-9);
  EXPECT_NEAR(twice.host_times.token, 2 * base.token, 1e-9);
  EXPECT_NEAR(twice.host_times.product_gradient, 2 * base.product_gradient, 1e-9);
  EXPECT_EQ(twice.host_times.foreach_parameter, 12e-6);
  EXPECT_EQ(twice.host_times.norm_parameter, 5e-6);
  EXPECT_EQ(twice.host_times.segment, base.segment);
  EXPECT_THAT(twice.sources.at("host_times"), HasSubstr("Some Processor, 8 cores, python 3.12.3, pytorch 2.11.0"));
  const Hardware product = fitted(printed(1, 3).dump());
  EXPECT_NEAR(product.host_times.product, 3 * base.product, 1e-9);
  EXPECT_NEAR(product.host_times.launch, base.launch, 1e-9);
}

TEST(HostTimes, LeaveABaseAloneWhereNothingWasMeasured) {
  Hardware out = find_hardware("h200").value();
  std::vector<std::string> notes;
  fit_host_times(Measurements{}, out, notes);
  EXPECT_EQ(out.host_times.launch, find_hardware("h200")->host_times.launch);
  EXPECT_TRUE(notes.empty());
}

TEST(HostTimes, RefuseWhatIsIncomplete) {
  Measurements out;
  EXPECT_THAT(read_host_times("no JSON", out).error().text(), HasSubstr("found no object with `seconds`"));
  nlohmann::json missing = printed(1);
  missing["seconds"].erase("softmax");
  EXPECT_THAT(read_host_times(missing.dump(), out).error().text(), HasSubstr("found no positive time of `softmax`"));
  missing["seconds"]["softmax"] = -1;
  EXPECT_FALSE(read_host_times(missing.dump(), out));
  EXPECT_TRUE(out.host_seconds.empty());
}

/// A program that stands in for a Python with PyTorch.
class Program {
 public:
  explicit Program(const std::string& commands)
      : path_(std::filesystem::path(testing::TempDir()) / "stand in for python") {
    std::ofstream(path_) << "#!/bin/sh\n" << commands;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
  }
  ~Program() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST(HostTimes, AreWhatAPythonPrints) {
  const Program python("grep -q 'import torch' \"$1\" || exit 3\necho a warning\necho '" + printed(1).dump() + "'\n");
  Measurements out;
  const Status measured = measure_host_times(python.path(), out);
  ASSERT_TRUE(measured) << measured.error().text();
  EXPECT_EQ(out.host, "Some Processor, 8 cores");
  EXPECT_EQ(out.versions.at("pytorch"), "2.11.0");
  EXPECT_NEAR(out.host_seconds.at("add"), 9.56e-6, 1e-12);
}

TEST(HostTimes, TellWhatAPythonWithoutPyTorchSays) {
  const Program python("echo Traceback >&2\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n");
  Measurements out;
  const std::string text = measure_host_times(python.path(), out).error().text();
  EXPECT_THAT(text, HasSubstr("ModuleNotFoundError: No module named 'torch'"));
  EXPECT_THAT(text, HasSubstr("--python"));
}

}  // namespace
}  // namespace headroom::gpu
