#pragma once

#include <string>

#include "models/base/result.h"
#include "simulator/job/job.h"

namespace headroom::cli {

/// `--lengths`: token lengths below the cap. One of
///
///   KEY=N,…   the figures themselves
///   NAME      a dataset that Headroom knows (configs/lengths/NAME.yaml)
///   FILE      YAML or JSON: a map of the same figures, a list of lengths, or a length a line; or `phases` with
///             the micro-batches of a run (planner/configuration/listed_batches.h), such as a recording: then
///             these are what is run, in place of the worst case
///
/// Figures are
///   prompt, response  mean tokens of a prompt, of a response; in a file also a list of lengths
///   mean              mean tokens of both together, shared out as the caps are
///   max               the longest sequence met; padded batches are as wide
///   spread            standard deviation of the tokens of k sequences, over the square root of k (for
///                     independent sequences: of one sequence)
///   prompt_max        the longest prompt: then the longest sequence is that with a response of the cap's length
///   rows, source      (files) how much of a mixture it is; where the figures come from
///
/// A list holds whole sequences (prompt and response): their mean, deviation and the longest count. Lengths
/// above the cap count as the cap, as frameworks cut them. Errors: unknown keys, a stated mean above its cap,
/// nothing that gives a mean.
Result<Lengths> read_lengths(const std::string& text, const Job& job);

/// Whether these means can occur under the caps. Where responses may fill the whole sequence (a prompt's cap of one token
/// is then what is left), prompts share it.
bool within_caps(const Lengths& lengths, const Batch& caps);

/// The job with every sequence at its expected length instead of the cap: packed micro-batches hold fewer
/// tokens, the KV cache more sequences. With a known spread, micro-batches of a fixed number of sequences are
/// as large as the largest one of the simulated steps is expected to be. What is padded is padded to the
/// longest sequence (the cap, where no longest is known).
Job at_expected_lengths(const Job& job, const Lengths& lengths);

}  // namespace headroom::cli
