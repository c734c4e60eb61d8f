/// docs/regenerate_engines.sh: writes docs/ENGINES.md (argument 1) from a collection of start-up logs (argument
/// 2; without it, those of tests/data).
#include <fstream>
#include <iostream>

#include "tests/support/data.h"
#include "tests/support/engine_log.h"

int main(int count, char** arguments) {
  using namespace headroom;
  if (count < 2 || count > 3) {
    std::cerr << "usage: engine_logs DOCUMENT [LOGS]\n";
    return 2;
  }
  const auto logs = test::read_engine_logs(count == 3 ? arguments[2] : test::data("engines/startup.json"));
  if (!logs) {
    std::cerr << logs.error().text() << "\n";
    return 1;
  }
  std::ofstream(arguments[1]) << test::engine_logs_document(*logs);
  return 0;
}
