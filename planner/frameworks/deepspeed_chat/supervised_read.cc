#include <fmt/format.h>

#include <array>

#include "planner/frameworks/deepspeed_chat/flags.h"
#include "planner/frameworks/deepspeed_chat/models.h"
#include "planner/frameworks/deepspeed_chat/supervised.h"

namespace headroom::deepspeed_chat::supervised {
namespace {

const JobInput::File* launch_file(const JobInput& input) {
  for (const JobInput::File& file : input.files) {
    if (file.launch == nullptr || !file.launch->program.ends_with("main.py")) continue;
    const shell::Launch& launch = *file.launch;
    const bool own = has(launch, "--data_split") || has(launch, "--sft_only_data_path") ||
                     has(launch, "--num_padding_at_beginning") || has(launch, "--lora_module_name") ||
                     (launch.runner == "deepspeed" && (has(launch, "--per_device_train_batch_size") || has(launch, "--zero_stage")));
    if (own && has(launch, "--model_name_or_path")) return &file;
  }
  return nullptr;
}

/// The step that flags and folders tell; the first where nothing does.
Program program_of(const JobInput::File& file, std::string& because) {
  struct Clue {
    std::string_view flag;
    Program program;
  };
  constexpr std::array kFlags = {Clue{"--beta", Program::dpo},
                                 Clue{"--label_smoothing", Program::dpo},
                                 Clue{"--offload_reference_model", Program::dpo},
                                 Clue{"--num_padding_at_beginning", Program::rm},
                                 Clue{"--eval_interval", Program::rm},
                                 Clue{"--eval_iters", Program::rm},
                                 Clue{"--sft_only_data_path", Program::sft},
                                 Clue{"--print_loss", Program::sft},
                                 Clue{"--eot_token", Program::sft}};
  for (const Clue& clue : kFlags)
    if (has(*file.launch, clue.flag)) {
      because = std::string(clue.flag);
      return clue.program;
    }
  constexpr std::array kFolders = {Clue{"step2_dpo", Program::dpo}, Clue{"step2_reward", Program::rm},
                                   Clue{"step1_supervised", Program::sft}};
  for (const Clue& clue : kFolders)
    if (file.path.find(clue.flag) != std::string::npos || file.launch->program.find(clue.flag) != std::string::npos) {
      because = std::string(clue.flag);
      return clue.program;
    }
  because = "no flag tells";
  return Program::sft;
}

constexpr std::string_view name_of(Program program) {
  return program == Program::sft ? "step 1, supervised fine-tuning"
         : program == Program::rm ? "step 2, a reward model"
                                  : "step 2, DPO";
}

void find_model(Values& v, Settings& s, const JobOptions& options, const std::string& base) {
  if (v.failed()) return;
  if (!options.model.empty()) s.model_path = options.model;
  if (s.model_path.empty()) return v.fail_at("model_name_or_path", "no model is given; name it here or with --model");
  s.model = model_of(v, "model_name_or_path", s.model_path,
                     s.program == Program::rm ? HeadKind::scalar : HeadKind::language_model, base,
                     options.stated_model(s.model_path));
  if (s.model == nullptr || s.lora_rank == 0) return;
  if (!adapted_modules(*s.model, s.lora_scope).empty()) return;
  if (s.only_lora) v.without_effect("only_optimize_lora", "nothing is adapted");
  v.without_effect("lora_dim", fmt::format("no linear's name holds \"{}\": nothing is adapted, and everything trains",
                                           s.lora_scope.substr(0, 80)));
}

void check_flags(Values& v, const Settings& s) {
  if (s.dtype != "fp16" && s.dtype != "bf16")
    v.fail_at("dtype", fmt::format("expected fp16 or bf16, found {}", s.dtype.substr(0, 80)));
  if (!s.dropout.empty() && !Document::scalar(s.dropout).as_double())
    v.fail_at("dropout", fmt::format("expected a number, found {}", s.dropout.substr(0, 80)));
  if (s.only_lora && s.lora_rank == 0) v.without_effect("only_optimize_lora", "without --lora_dim there are no adapters");
  if (s.offload_reference && (s.zero_stage != 3 || s.program != Program::dpo))
    v.without_effect("offload_reference_model", "only zero_stage 3 offloads parameters");
}

void check(Values& v, Settings& s, const JobOptions& options, const std::string& base) {
  check_flags(v, s);
  find_model(v, s, options, base);
}

}  // namespace

bool is_command(const JobInput& input) {
  return launch_file(input) != nullptr;
}

Result<ReadJob> read(const JobInput& input, const JobOptions& options) {
  const JobInput::File& file = *launch_file(input);
  auto made = std::make_shared<Settings>();
  std::string because;
  made->program = program_of(file, because);
  made->assumptions.push_back(fmt::format("DeepSpeed-Chat's {} ({})", name_of(made->program), because));
  return read_flags<Settings>(input, file, options, std::move(made),
                              {.keys = keys(),
                               .model_key = "model_name_or_path",
                               .read = read_settings,
                               .check = check,
                               .make_job = make_job});
}

}  // namespace headroom::deepspeed_chat::supervised
