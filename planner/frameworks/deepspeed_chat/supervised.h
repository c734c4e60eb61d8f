#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/frameworks/registry.h"
#include "planner/frameworks/settings/run.h"
#include "planner/frameworks/settings/table.h"
#include "simulator/job/job.h"

/// DeepSpeed-Chat's first two steps: supervised fine-tuning, reward models, and DPO in the second's place.
namespace headroom::deepspeed_chat::supervised {

enum class Program { sft, rm, dpo };

struct Settings : settings::TableSettings {
  Program program = Program::sft;
  std::string model_path;
  std::shared_ptr<const Architecture> model;
  std::int64_t gpus = 8, batch = 16, eval_batch = 16, length = 512, accumulation = 1, zero_stage = 0;
  bool offload = false, checkpointing = false, only_lora = false, offload_reference = false;
  std::string dtype = "fp16", dropout;
  bool full_rows = false;        ///< no row of a batch is padded, so that Transformers leaves its mask out
  bool disable_dropout = false;  ///< the flag of releases before October 2023
  std::int64_t lora_rank = 0;
  std::string lora_scope = "decoder.layers.";  ///< part of the names of linears that adapters replace

  /// Chosen and rejected answers lie in one batch.
  std::int64_t rows() const { return program == Program::sft ? 1 : 2; }
};

/// A `main.py` that starts one of these steps.
bool is_command(const JobInput& input);
Result<ReadJob> read(const JobInput& input, const JobOptions& options);

/// Every flag.
std::vector<settings::Key> keys();
void read_settings(Values& values, Settings& settings);
bool assign(Settings& settings, const Setting& setting);

/// The Job that runs these settings. Errors: those of the job's validation.
Result<Job> make_job(const Settings& settings);

std::vector<Knob> knobs(const ReadJob& read);
Result<Job> with(const ReadJob& read, std::span<const Choice> choices);
Result<std::vector<Setting>> settings_for(const ReadJob& read, std::span<const Choice> choices);

}  // namespace headroom::deepspeed_chat::supervised
