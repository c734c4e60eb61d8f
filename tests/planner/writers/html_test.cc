#include "planner/writers/html/html.h"
#include "planner/writers/html/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "planner/writers/json.h"
#include "simulator/replay/snapshot_analysis.h"
#include "simulator/replay/snapshot_reader.h"
#include "tests/support/data.h"

namespace headroom::writers {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Report sample() {
  Report report;
  report.title = "</script><img src=x onerror=document.title='owned'> & \"job\"";
  report.framework = "verl";
  report.executor = "simulator";
  report.budget = 80 * kGiB;
  report.fits = true;
  DeviceReport device;
  for (int step = -1; step < 3; ++step)
    for (const char* name : {"generate", "train_actor", "weight_sync"}) {
      PhaseReport phase;
      phase.step = step;
      phase.phase = name;
      phase.margin = kGiB;
      phase.seconds = 1.5;
      phase.at_peak_device[Component::weights] = 14 * kGiB + 12345;
      phase.at_peak_device[Component::logits] = (step + 2) * 3 * kGiB;
      phase.peak_device = phase.at_peak_device.total();
      device.phases.push_back(phase);
    }
  report.devices.push_back(device);
  return report;
}

TEST(Html, IsOneFileThatLoadsNothing) {
  const Report report = sample();
  const std::string page = html({&report, 1});
  EXPECT_LT(page.size(), 200'000u);
  EXPECT_THAT(page, Not(HasSubstr("http://www.w3.org/1999")));
  EXPECT_FALSE(std::regex_search(page, std::regex("(src|href)=\"[^\"]")));
  EXPECT_THAT(page, Not(HasSubstr("@DATA@")));
}

TEST(Html, TextsStayTexts) {
  const Report report = sample();
  const std::string page = html({&report, 1});
  EXPECT_THAT(page, Not(HasSubstr("</script><img")));
  EXPECT_THAT(page, HasSubstr("\\u003c/script\\u003e\\u003cimg"));
  // The data is the report's JSON.
  const std::string mark = "<script id=\"data\" type=\"application/json\">";
  const std::size_t start = page.find(mark) + mark.size();
  const auto data = nlohmann::json::parse(page.substr(start, page.find("</script>", start) - start));
  EXPECT_EQ(data["reports"][0], nlohmann::json::parse(json(report)));
}

/// What a browser makes of the page. Empty: there is none.
std::string rendered(const std::filesystem::path& page) {
  if (std::system("command -v chromium > /dev/null 2>&1") != 0) return "";
  const std::string command =
      "timeout 120 chromium --headless --no-sandbox --disable-gpu --user-data-dir=" +
      (page.parent_path() / "profile").string() +
      " --enable-logging=stderr --virtual-time-budget=4000 --dump-dom 'file://" + page.string() + "' 2>" +
      (page.parent_path() / "log").string();
  std::FILE* pipe = popen(command.c_str(), "r");
  std::string out;
  char chunk[65536];
  for (std::size_t n = 0; (n = fread(chunk, 1, sizeof chunk, pipe)) > 0;) out.append(chunk, n);
  pclose(pipe);
  return out;
}

TEST(Html, ABrowserShowsTheReportsNumbers) {
  const std::filesystem::path folder = test::scratch() / "html";
  std::filesystem::create_directories(folder);
  const std::vector<Report> reports = {sample(), sample()};
  std::ofstream(folder / "page.html") << html(reports);
  const std::string dom = rendered(folder / "page.html");
  std::ifstream log_file(folder / "log");
  const std::string log{std::istreambuf_iterator<char>(log_file), {}};
  std::filesystem::remove_all(folder);
  if (dom.empty()) GTEST_SKIP() << "skipped: no chromium";
  EXPECT_THAT(dom, HasSubstr("data-ready=\"yes\""));
  EXPECT_THAT(dom, Not(HasSubstr("data-error")));
  EXPECT_THAT(log, Not(HasSubstr("CONSOLE")));
  EXPECT_THAT(dom, Not(HasSubstr("<img")));
  for (const PhaseReport& phase : reports[0].devices[0].phases) {
    const std::string row = "data-phase=\"" + phase.phase + "\" data-step=\"" + std::to_string(phase.step) +
                            "\" data-peak=\"" + std::to_string(phase.peak_device) + "\"";
    EXPECT_THAT(dom, HasSubstr(row));
    EXPECT_THAT(dom, HasSubstr("data-component=\"logits\" data-bytes=\"" +
                               std::to_string(phase.at_peak_device[Component::logits]) + "\""));
  }
}

/// A peak of what is merely still cached is put down to the phase that needed it.
TEST(Html, ABrowserSaysWhoseTheCachedMemoryIs) {
  Report report = sample();
  std::vector<PhaseReport>& phases = report.devices[0].phases;
  for (PhaseReport& phase : phases) {
    ProcessPhase process;
    process.process = "trainer";
    process.peak_reserved = process.reserved_start = 4 * kGiB;
    phase.processes.push_back(process);
  }
  ProcessPhase& maker = phases[phases.size() - 2].processes[0];
  maker.peak_reserved = 40 * kGiB;
  maker.peak_allocated = 36 * kGiB;
  maker.at_peak_allocated[Component::gradients] = 30 * kGiB;
  ProcessPhase& heir = phases.back().processes[0];
  heir.peak_reserved = heir.reserved_start = 40 * kGiB;
  phases.back().at_peak_device[Component::allocator_slack] = 25 * kGiB;
  phases.back().peak_device = phases.back().at_peak_device.total();
  const std::filesystem::path folder = test::scratch() / "html_inherited";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "page.html") << html({&report, 1});
  const std::string dom = rendered(folder / "page.html");
  std::filesystem::remove_all(folder);
  if (dom.empty()) GTEST_SKIP() << "skipped: no chromium";
  EXPECT_THAT(dom, HasSubstr("25.00 GiB of it are cached since train_actor (step 2), which had 36.00 GiB allocated at its "
                             "peak (gradients 30.00); weight_sync itself uses 26.00 GiB."));
}

/// Of a recorded run: its allocations, and its segments where it reserved most, whose free parts are what the analysis
/// calls free.
TEST(Html, ABrowserDrawsASnapshotsSegments) {
  const auto snapshot = replay::read_snapshot(test::data("snapshots/basic.pickle.gz").string()).value();
  const auto analysis = replay::analyse_device(snapshot, 0).value();
  const std::string timeline = timeline_json(snapshot, analysis, "GPU 0");
  const auto data = nlohmann::json::parse(timeline);
  ASSERT_EQ(data["segments"].size(), data["all_segments"]);
  Bytes free = 0, reserved = 0;
  for (const auto& segment : data["segments"]) {
    Bytes parts = 0;
    for (const auto& part : segment[3]) parts += part[0].get<Bytes>();
    EXPECT_EQ(parts, segment[0].get<Bytes>());
    reserved += parts;
    free += segment[1].get<Bytes>();
  }
  EXPECT_EQ(free, analysis.fragmentation.free);
  EXPECT_EQ(reserved, analysis.peak_reserved.reserved);
  std::string text = json(sample());
  text.erase(text.find_last_of('}'));
  const std::filesystem::path folder = test::scratch() / "html_segments";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "page.html") << html_page(text + ",\"timeline\":" + timeline + "}");
  const std::string dom = rendered(folder / "page.html");
  std::ifstream log_file(folder / "log");
  const std::string log{std::istreambuf_iterator<char>(log_file), {}};
  std::filesystem::remove_all(folder);
  if (dom.empty()) GTEST_SKIP() << "skipped: no chromium";
  EXPECT_THAT(dom, Not(HasSubstr("data-error")));
  EXPECT_THAT(log, Not(HasSubstr("CONSOLE")));
  EXPECT_THAT(dom, HasSubstr("Segments at the reserved peak"));
  EXPECT_THAT(dom, AllOf(HasSubstr("class=\"free\""), HasSubstr("class=\"used\"")));
}

}  // namespace
}  // namespace headroom::writers
