#pragma once

namespace headroom::cli {

/// The whole program: parses the command line, runs one subcommand, prints, and returns the exit code.
int run(int argc, const char* const* argv);

}  // namespace headroom::cli
