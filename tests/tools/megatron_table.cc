/// docs/regenerate_megatron.sh: writes the tables of docs/MEGATRON.md out of the recordings (argument 1).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "tests/support/megatron_recording.h"

namespace {

using headroom::test::MegatronErrors;
using headroom::test::MegatronRecording;

struct Sum {
  double total = 0, worst = 0, rows = 0, exact = 0;
  std::string where;
  void add(double error, double limit, const std::string& at) {
    total += std::abs(error);
    rows += 1;
    exact += std::abs(error) <= limit ? 1 : 0;
    if (std::abs(error) > std::abs(worst)) {
      worst = error;
      where = at;
    }
  }
  std::string row(const char* what, const char* limit) const {
    return fmt::format("| {} | {:.0f} | {:.3f} % | {:+.2f} % ({}) | {:.1f} % within {} |\n", what, rows,
                       100 * total / std::max(rows, 1.0), 100 * worst, where,
                       100 * exact / std::max(rows, 1.0), limit);
  }
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: megatron_table RECORDED.json\n";
    return 2;
  }
  const auto recordings = headroom::test::megatron_recordings(arguments[1]);
  if (!recordings) {
    std::cerr << recordings.error().text() << "\n";
    return 1;
  }
  Sum peak, end, one_stream, own_stream, outside;
  std::ostringstream rows;
  for (const MegatronRecording& recording : *recordings) {
    const auto errors = headroom::test::megatron_errors(recording);
    if (!errors) {
      std::cerr << recording.name << ": " << errors.error().text() << "\n";
      return 1;
    }
    for (const MegatronErrors& e : *errors) {
      const std::string at = fmt::format("{} rank {}, {}", recording.name, recording.rank, e.phase);
      peak.add(e.peak, 0.001, at);
      end.add(e.end, 0.001, at);
      (recording.current_stream ? one_stream : own_stream).add(e.reserved, 0.02, at);
      if (!recording.exchange) outside.add(e.outside, 0.02, at);
      rows << fmt::format("| {} | {} | {} | {} | {:+.2f} % | {:+.2f} % | {:+.1f} % |\n", recording.name,
                          recording.rank, e.step, e.phase, 100 * e.peak, 100 * e.end, 100 * e.reserved);
    }
  }
  std::cout << "| | rows | mean | worst | |\n| --- | ---: | ---: | --- | --- |\n"
            << peak.row("allocated, peak", "0.1 %") << end.row("allocated, end of phase", "0.1 %")
            << one_stream.row("reserved, wrapped on the current stream", "2 %")
            << own_stream.row("reserved, wrapped on a stream of its own", "2 %")
            << outside.row("beside the allocator (context, communicators), end of phase", "2 %") << "\n"
            << "| run | rank | step | phase | peak allocated | allocated at the end | peak reserved |\n"
            << "| --- | ---: | ---: | --- | ---: | ---: | ---: |\n"
            << rows.str();
  return 0;
}
