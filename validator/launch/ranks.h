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
  bool foreign = false;               ///< started by torchrun, mpirun or srun

  /// The card to take of the `visible` ones. Foreign launchers may show each process its own card alone: it
  /// is then card 0, whatever the place on the machine.
  int card(int visible) const { return foreign && visible == 1 ? 0 : local; }
};

/// Looks a variable up; tests pass their own.
using Environment = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> process_environment(const char* name);

/// Reads this process's place from what started it: Headroom itself (HEADROOM_RANK …), torchrun (RANK …),
/// Open MPI (OMPI_COMM_WORLD_RANK …), a step of Slurm's srun (SLURM_PROCID and SLURM_STEP_NUM_TASKS …; a
/// batch script itself is no rank, though it has SLURM_PROCID and SLURM_NTASKS). Nothing when none of them
/// did. Across machines MASTER_ADDR must be set; HEADROOM_PORT (default: MASTER_PORT + 1, since torchrun
/// listens on that itself) names the port. `wanted` is what the command line says of ranks (`--nproc`): a
/// step of one process is then a mere shell, and a launcher that started another number contradicts it.
/// Errors name the variable: no number, a port outside 1..65535, a rank beyond the number of ranks, a
/// contradiction.
Result<std::optional<Place>> find_place(const Environment& environment, std::optional<int> wanted = {});

/// An error where a machine that shows `cards` cards cannot give one to each of `ranks` copies.
Status enough_cards(int ranks, int cards);

/// A port of this machine that the kernel gives and nobody listens on.
int free_port();

/// This program's own command line, name first (from the kernel).
Result<std::vector<std::string>> own_arguments();

/// Which of two ranks' exit codes stands for both: an error (1, 2, a signal) before "does not fit" (3) before
/// "disagrees" (4) before success.
int worse_code(int a, int b);

/// How long ranks have to end by themselves.
struct Grace {
  int after_stop = 30;  ///< seconds after one ended without room (3): rank 0 may be writing its report
  int after_term = 5;   ///< seconds between SIGTERM and SIGKILL
};

/// Starts `ranks` copies of this program with the same arguments, each with its place in HEADROOM_ variables,
/// waits for all, and returns the worst of the codes that they gave by themselves. One that ends early (an
/// error, or 3) leaves others waiting in a collective: they are ended too. SIGTERM and SIGINT reach the
/// copies, and give 128 + signal; when this process is killed, the kernel kills them.
Result<int> spawn_ranks(int ranks, const std::vector<std::string>& arguments, Grace grace = {});

}  // namespace headroom::launch
