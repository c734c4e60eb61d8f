#include "planner/cli/run.h"

int main(int argc, char** argv) {
  return headroom::cli::run(argc, argv);
}
