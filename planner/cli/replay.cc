#include "planner/cli/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <ostream>

#include "planner/cli/replay_snapshot.h"
#include "simulator/replay/verify.h"

namespace headroom::cli {
namespace {

int compare_recordings(const std::string& path, replay::Comparison comparison, Streams& streams) {
  HEADROOM_CLI_ASSIGN(const auto recordings, replay::read_recordings(path), streams);
  const std::vector<replay::CaseResult> results = replay::compare(recordings, comparison);
  for (const replay::CaseResult& result : results)
    if (!result.matched) streams.out << result.name << ": " << result.difference << "\n";
  const auto matched = std::count_if(results.begin(), results.end(), [](const auto& r) { return r.matched; });
  streams.out << fmt::format("cases {} matched {}\n", results.size(), matched);
  return static_cast<std::size_t>(matched) == results.size() ? kDone : kDisagrees;
}

}  // namespace

Command replay_command() {
  std::vector<Option> options = {
      {"FILE", "", "a snapshot (pickle), an allocation stream (JSON) or recordings (.jsonl); .gz too", true},
      {"--verify", "", "recordings: compare every event; exit 4 when any differs"},
      {"--predict", "", "the same, taking segment placement from the driver model"}};
  std::ranges::move(replay_snapshot_options(), std::back_inserter(options));
  return {.name = "replay",
          .summary = "what a recorded run's memory did, and what other allocator settings would have done",
          .options = std::move(options),
          .common = kJsonFlag,
          .run = replay};
}

int replay(const Arguments& arguments, Streams& streams) {
  const bool verify = arguments.has("--verify"), predict = arguments.has("--predict");
  if (verify && predict) {
    return report_error({.message = "expected one of --verify and --predict", .file = {}, .key = "replay"},
                        streams);
  }
  if (!verify && !predict) return replay_snapshot(arguments.text("FILE"), arguments, streams);
  for (const char* flag : {"--pickle", "--events", "--limit", "--setting", "--json", "--html"})
    if (arguments.has(flag))
      return report_error({.message = "recordings are compared as they are, with --verify or --predict, and "
                                      "told as text: leave it out",
                           .file = {},
                           .key = flag},
                          streams);
  return compare_recordings(arguments.text("FILE"),
                            verify ? replay::Comparison::verify : replay::Comparison::predict, streams);
}

}  // namespace headroom::cli
