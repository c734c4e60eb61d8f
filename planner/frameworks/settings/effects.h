#pragma once

#include <string_view>
#include <vector>

#include "planner/frameworks/read_job.h"

namespace headroom::settings {

/// What knobs of one kind do, whatever their framework calls them. Values are taken to rise, flags to go from
/// off to on. Tests hold every framework's knobs against these.
using Effects = std::vector<headroom::Effect>;

/// Beside the activities of `Activity`: weights reach an engine. Such a phase is also one of `kResting`, so that what
/// touches everything touches it.
inline constexpr unsigned kSyncing = 16;

/// Sequences or tokens that are trained on at once.
Effects training_size(std::string_view role = {});
/// ... that pass without gradients at once.
Effects scoring_size(std::string_view role = {});
/// ... both.
Effects pass_size(std::string_view role = {});
/// Something is recomputed in the backward instead of kept.
Effects recomputation(std::string_view role = {});
/// What training alone does, slower when on.
Effects training_saver(std::string_view role = {});
/// How passes are computed: without an order.
Effects passes();
/// How a model is laid over its GPUs: without an order, and what it takes while an engine generates.
Effects layout();
/// Parts of a model that are on the host while others work.
Effects parked();
/// Optimizer states that are on the host outside their update.
Effects parked_optimizer(std::string_view role = {});
/// The engine's share of the GPU. `sleeps`: it holds nothing of it while others work, whatever is set.
Effects engine_share(bool sleeps = true);
/// An engine without CUDA graphs.
Effects engine_eager();
/// Sequences that an engine generates at once.
Effects engine_sequences();
/// Tokens of an engine's prefill.
Effects engine_prefill();
/// Ranks of an engine.
Effects engine_ranks();
/// The buffer through which weights reach the engine.
Effects weight_buffer();

/// Of Megatron's runs: no micro-batch size is known to be the fastest, and Megatron-Core keeps one buffer a process, as large as what any pass needed of it: what changes one phase's
/// memory may change every other's.
void share_buffers(const Job& job, std::vector<Knob>& knobs);

}  // namespace headroom::settings
