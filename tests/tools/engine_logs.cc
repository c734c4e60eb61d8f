/// docs/regenerate_engines.sh: prints the tables of docs/ENGINES.md out of a collection of start-up logs (argument 1;
/// without it, those of tests/data).
#include <iostream>

#include "tests/support/data.h"
#include "tests/support/engine_log.h"

int main(int count, char** arguments) {
  using namespace headroom;
  if (count > 2) {
    std::cerr << "usage: engine_logs [LOGS]\n";
    return 2;
  }
  const auto logs = test::read_engine_logs(count == 2 ? arguments[1] : test::data("engines/startup.json"));
  if (!logs) {
    std::cerr << logs.error().text() << "\n";
    return 1;
  }
  std::cout << test::engine_log_tables(*logs);
  return 0;
}
