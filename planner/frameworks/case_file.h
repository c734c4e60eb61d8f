#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "models/architecture/architecture.h"
#include "planner/configuration/values.h"
#include "planner/frameworks/read_job.h"

namespace headroom::cases {

/// Loops whose job is a flat map of keys, alone or as the `case` of a recording. Of a recording only `case`
/// and the keys that describe the machine (`device`, `total_memory`, `alloc_conf`) are read.

/// What every such loop is told of its machine.
struct MachineSettings : FrameworkSettings {
  std::string allocator_settings;
  std::string device;      ///< as the driver names it; empty: not given
  Bytes total_memory = 0;  ///< as the driver reports it; 0: not given
};
/// Allocator settings come from `own_conf`, a key of the case, where it is given. Errors: settings that
/// PyTorch does not take.
void read_machine(Values& values, MachineSettings& settings, std::string_view own_conf = {});

/// Counts of sequences, and of tokens a sequence: what a run of some minutes still simulates.
inline constexpr std::int64_t kMostSequences = 1 << 24, kMostTokens = 1 << 20;

/// Fails where one of `keys` is not given or null: it has no default.
void require(Values& values, std::initializer_list<std::string_view> keys, std::string_view expected);

/// The job's frame: its name, its framework, the card, and one node of `gpus`.
Job frame(const std::string& name, const char* framework, const MachineSettings& settings,
          std::int64_t gpus = 1);

/// The one process that trains all roles of `job`.
Process trainer_of(const Job& job, const MachineSettings& settings);

/// Transformers' `generate` on the weights of a role.
Engine generation_by(std::shared_ptr<const Architecture> model);

/// The map itself: the `case` within a document, or the document.
const Document& inner(const Document& document);

/// The files' maps laid over each other, then `--set`. Errors: a file that holds no map.
Result<Layers> lay(const JobInput& input, const JobOptions& options);

/// Two spellings of one setting: the one that is given, else `own`; `--set` goes before files. Fails where
/// both are given in the same way with different values.
std::string_view either(Values& values, std::string_view own, std::string_view other);

/// The model whose config.json values stand under `key`, which is required; or the one that the command line
/// names (`named`, as `--model` takes it), in place of it. Null after an error, which `values` keeps.
std::shared_ptr<const Architecture> model(Values& values, std::string_view key,
                                          const std::string& named = {});

/// A sequence beyond the model's positions: fails at `prompt` or `response` where they are learned, whose
/// table has no more rows; warns where they are rotary, which are computed. `key` names the model in the
/// message; a null model is left alone.
void check_positions(Values& values, std::string_view key, const Architecture* model, std::int64_t prompt,
                     std::int64_t response);

/// Fails at `key`, whose model reads tokens of `actor`'s, when it has no embedding for some of them.
void check_vocabulary(Values& values, std::string_view key, const Architecture* model,
                      const Architecture* actor);

/// Fails at `key` when no program runs its model. `attention`: the key that chose the model's attention,
/// where the error is of that; empty: Transformers chooses.
void check_program(Values& values, std::string_view key, const Architecture* model,
                   AttentionImplementation attention, std::string_view attention_key = {});

/// What Transformers chooses when nothing is asked for: SDPA where the family has it.
AttentionImplementation default_attention(const Architecture& model);

/// What a reader hands back: the command line's wishes laid over the job, keys used, and a warning for each
/// key that is in no case and each flag that has no effect on one. Errors: a job that `validate_job` refuses,
/// by the batch's key.
Result<ReadJob> finish(Job job, const JobInput& input, const JobOptions& options, const Layers& layers,
                       Values& values, std::span<const std::string_view> known_keys,
                       std::shared_ptr<const FrameworkSettings> settings);

}  // namespace headroom::cases
