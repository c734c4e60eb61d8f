#pragma once

#include <map>
#include <string>
#include <string_view>

namespace headroom::shell {

/// The variables that Slurm sets in a script submitted with `sbatch`, as far as its own `#SBATCH` lines say them:
/// SLURM_JOB_NUM_NODES and SLURM_NNODES, SLURM_GPUS_ON_NODE, SLURM_GPUS_PER_NODE, SLURM_NTASKS_PER_NODE,
/// SLURM_CPUS_PER_TASK, SLURM_JOB_NAME (sbatch(1), *Output environment variables*). Lines behind the first command don't
/// count. Values that are no single number (`--nodes=2-4`) are left out.
std::map<std::string, std::string> slurm_variables(std::string_view script);

}  // namespace headroom::shell
