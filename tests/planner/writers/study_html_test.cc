#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "planner/writers/study/study.h"
#include "tests/support/data.h"

namespace headroom::writers {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using study::Cell;

study::Results sample() {
  study::Results out{.name = "</script><img src=x> & \"study\"", .cells = {}};
  for (const study::Emptying when : {study::Emptying::never, study::Emptying::phases}) {
    Cell cell;
    cell.job = "one";
    cell.framework = "torch";
    cell.strategy = "none";
    cell.gpu = "NVIDIA H200";
    cell.gpus = 1;
    cell.empty_cache = when;
    cell.reserved = {.bytes = 20 * kGiB, .step = 0, .phase = "train_actor"};
    cell.allocated_there = 15 * kGiB;
    cell.parts = {{.step = 0, .phase = "generate", .component = Component::kv_cache, .operation = "", .bytes = 5 * kGiB}};
    for (const char* phase : {"generate", "train_actor"}) {
      study::CellPhase& row = cell.step.emplace_back();
      row.memory.phase = phase;
      row.memory.reserved = 20 * kGiB;
      row.memory.allocated = 15 * kGiB;
      row.memory.points = {{10 * kGiB, 12 * kGiB}, {15 * kGiB, 20 * kGiB}};
    }
    out.cells.push_back(cell);
  }
  Cell failed;
  failed.job = "one";
  failed.strategy = "other";
  failed.status = Cell::Status::failed;
  failed.message = "why";
  out.cells.push_back(failed);
  return out;
}

TEST(StudyHtml, IsOneFileThatLoadsNothing) {
  const std::string page = study_html(sample());
  EXPECT_FALSE(std::regex_search(page, std::regex("(src|href)=\"[^\"]")));
  EXPECT_THAT(page, Not(HasSubstr("@DATA@")));
  EXPECT_THAT(page, Not(HasSubstr("</script><img")));
}

/// What a browser makes of the page. Empty: there is none.
std::string rendered(const std::filesystem::path& page) {
  if (std::system("command -v chromium > /dev/null 2>&1") != 0) return "";
  const std::string command = "timeout 120 chromium --headless --no-sandbox --disable-gpu --user-data-dir=" +
                              (page.parent_path() / "profile").string() +
                              " --virtual-time-budget=4000 --dump-dom 'file://" + page.string() + "' 2>/dev/null";
  std::FILE* pipe = popen(command.c_str(), "r");
  std::string out;
  char chunk[65536];
  for (std::size_t n = 0; (n = fread(chunk, 1, sizeof chunk, pipe)) > 0;) out.append(chunk, n);
  pclose(pipe);
  return out;
}

TEST(StudyHtml, ABrowserDrawsEachCellsStep) {
  const std::filesystem::path folder = test::scratch() / "study_html";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "page.html") << study_html(sample());
  const std::string dom = rendered(folder / "page.html");
  std::filesystem::remove_all(folder);
  if (dom.empty()) GTEST_SKIP() << "skipped: no chromium";
  EXPECT_THAT(dom, HasSubstr("data-ready=\"yes\""));
  EXPECT_THAT(dom, Not(HasSubstr("data-error")));
  EXPECT_THAT(dom, Not(HasSubstr("<img")));
  for (const char* when : {"never", "phases"})
    EXPECT_THAT(dom, HasSubstr("data-strategy=\"none\" data-empty=\"" + std::string(when) + "\" data-status=\"done\""));
  EXPECT_THAT(dom, HasSubstr("data-peak=\"" + std::to_string(20 * kGiB) + "\""));
  EXPECT_THAT(dom, HasSubstr("data-without=\"" + std::to_string(15 * kGiB) + "\""));
  EXPECT_THAT(dom, HasSubstr("data-status=\"failed\""));
}

}  // namespace
}  // namespace headroom::writers
