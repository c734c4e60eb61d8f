#include "planner/cli/run.h"

#include <CLI/CLI.hpp>

namespace headroom::cli {

int run(int argc, const char* const* argv) {
  CLI::App app{"headroom: does the RLHF run fit, and which configuration fits best?"};
  app.require_subcommand(0, 1);
  CLI11_PARSE(app, argc, argv);
  return 0;
}

}  // namespace headroom::cli
