#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/base/result.h"

namespace headroom::launch {

/// Which of several processes this one is. One process works on one GPU: the `local`-th of its machine.
struct Place {
  int rank = 0, ranks = 1, local = 0;
  std::string address = "127.0.0.1";  ///< of rank 0's machine
  int port = 0;                       ///< where rank 0 listens
};

/// Looks a variable up; tests pass their own.
using Environment = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> process_environment(const char* name);

/// Reads this process's place from what started it: Headroom itself (HEADROOM_RANK …), torchrun (RANK …),
/// Open MPI (OMPI_COMM_WORLD_RANK …), Slurm's srun (SLURM_PROCID …). Nothing when none of them did. Across
/// machines MASTER_ADDR must be set; HEADROOM_PORT (default: MASTER_PORT + 1, since torchrun listens on that
/// itself) names the port. A variable that is no number, or a rank beyond the number of ranks, is an error
/// naming it.
Result<std::optional<Place>> find_place(const Environment& environment);

/// This program's own command line, name first (from the kernel).
Result<std::vector<std::string>> own_arguments();

/// Starts `ranks` copies of this program with the same arguments, each with its place in HEADROOM_ variables,
/// waits for all, and returns the highest exit code. When one ends with an error that leaves others waiting,
/// they are ended too. Interrupts reach the copies through the terminal's process group.
Result<int> spawn_ranks(int ranks, const std::vector<std::string>& arguments);

}  // namespace headroom::launch
