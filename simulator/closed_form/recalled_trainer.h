#pragma once

#include <memory>
#include <span>
#include <string>

#include "simulator/closed_form/cost_book.h"
#include "simulator/phases/trainer_process.h"

namespace headroom::closed_form {

/// Training processes that recall what their actions cost instead of running their programs: allocated and
/// reserved bytes as `Fidelity::live_bytes`, in microseconds once the book knows the roles. For jobs whose
/// roles train on packed or engine-made batches; others run their programs. What is live for the moment at a
/// peak counts as temporaries, whatever it is.
///
/// Allocated peaks come to what the whole program gives, within 1 % (pipelines: 4 %, for a buffer that roles
/// share and grow inside their passes); reserved may miss one FSDP1 unit, which a forward after a training
/// has in flight beyond what the parts show.
MakeTrainer recalled(std::shared_ptr<CostBook> book);

/// The same for one look at some `phases` (by the names that reports show), in which they depend on their own
/// actions alone: nothing stays cached after an action, so that a phase never takes more than it really
/// takes, and passes over micro-batches of other phases are left out. Where Megatron's roles share a buffer
/// that passes of every phase grow, all phases run.
MakeTrainer recalled_phases(std::shared_ptr<CostBook> book, std::span<const std::string> phases);

/// Whether `recalled` knows the job's trainers by their parts: engines make the batches. A program that
/// generates inside the trainer, one whose roles run a loop of their own (loop_kind.h), and DeepSpeed's,
/// which keeps what its passes gathered, tie their roles together and are run for each configuration.
bool recalls(const Job& job);

}  // namespace headroom::closed_form
