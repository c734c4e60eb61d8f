#include "planner/frameworks/settings/knobs.h"

#include <algorithm>

#include "planner/configuration/override.h"
#include "planner/configuration/value_grammar.h"
#include "planner/frameworks/settings/arguments.h"
#include "planner/frameworks/trl/input.h"
#include "planner/frameworks/trl/job.h"
#include "planner/frameworks/trl/launcher.h"
#include "planner/frameworks/trl/read.h"
#include "planner/frameworks/write_back.h"

namespace headroom::trl {
namespace {

using settings::shown;
using Keys = std::vector<Setting>;
using Texts = std::vector<std::string>;
using Row = settings::KnobRow<Settings>;

bool sharded_by_accelerate(const Settings& s) {
  return s.distributed() == Distributed::deepspeed && !s.deepspeed.given;
}
/// Whole weights, gradients and optimizer states on every GPU, where Accelerate's flags can ask for other things.
bool copied(const Settings& s) {
  return s.distributed() == Distributed::data_parallel && s.takes_accelerate_flags;
}
bool colocated(const Settings& s) {
  return s.colocated();
}

/// Batches of one training step whose accumulation gives the same optimizer step.
Texts batches(const Settings& s) {
  return settings::texts(settings::divisors(s.batch * s.accum));
}

Keys batch_keys(const Settings& s, const std::string& value) {
  const std::int64_t batch = std::max<std::int64_t>(1, Document::scalar(value).as_int().value_or(1));
  const std::int64_t accum = std::max<std::int64_t>(1, s.batch * s.accum / batch);
  Keys out = {{"per_device_train_batch_size", value}, {"gradient_accumulation_steps", shown(accum)}};
  // A generation stays as large as it is.
  if (s.given_steps_per_generation)
    out.push_back({"steps_per_generation",
                   shown(std::max<std::int64_t>(1, s.batch * *s.given_steps_per_generation / batch))});
  if (Document::scalar(s.launcher.accumulation).as_int())
    out.push_back({"accelerate.gradient_accumulation_steps", shown(accum)});
  return out;
}

bool divides_heads(const Settings& s, std::int64_t ranks) {
  return std::all_of(s.model->decoder.groups.begin(), s.model->decoder.groups.end(),
                     [&](const LayerGroup& group) {
                       const Attention& a = group.layer.attention;
                       return a.heads % ranks == 0 &&
                              (a.kv_heads == 0 || a.kv_heads % ranks == 0 || ranks % a.kv_heads == 0);
                     });
}

// clang-format off
const Row kRows[] = {
    {"sharding", "DeepSpeed's ZeRO spreads what else every GPU has whole: 2 gradients and optimizer states, 3 weights too", false, copied,
     [](const Settings&) { return std::string("none"); }, [](const Settings&) { return Texts{"none", "2", "3"}; },
     [](const Settings&, const std::string& v) { return v == "none" ? Keys{} : Keys{{"accelerate.use_deepspeed", "true"}, {"accelerate.zero_stage", v}}; }},
    {"zero_stage", "what DeepSpeed spreads over the GPUs: 1 optimizer states, 2 gradients, 3 weights", false, sharded_by_accelerate,
     [](const Settings& s) { return shown(s.launcher.stage); }, [](const Settings& s) { Texts out{"1", "2", "3"}; if (s.launcher.stage == 0) out.insert(out.begin(), "0"); return out; },
     [](const Settings&, const std::string& v) { return Keys{{"accelerate.zero_stage", v}}; }},
    {"optimizer_offload", "the optimizer lives on the host", false, [](const Settings& s) { return sharded_by_accelerate(s) && s.launcher.stage >= 1; },
     [](const Settings& s) { return shown(s.launcher.offload_optimizer == "cpu"); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"accelerate.offload_optimizer_device", v == "true" ? "cpu" : "none"}}; }},
    {"param_offload", "weights live on the host and visit the GPU", false, [](const Settings& s) { return sharded_by_accelerate(s) && s.launcher.stage == 3; },
     [](const Settings& s) { return shown(s.launcher.offload_parameters == "cpu"); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"accelerate.offload_param_device", v == "true" ? "cpu" : "none"}}; }, {}, {"zero_stage", "3"}},
    {"fsdp_offload", "shards, gradients and optimizer live on the host", false, [](const Settings& s) { return s.distributed() == Distributed::fsdp; },
     [](const Settings& s) { return shown(s.launcher.offload_params); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"accelerate.fsdp_offload_params", v}}; }},
    {"micro_batch", "sequences (or pairs) a GPU trains on at once; accumulation follows", false, [](const Settings&) { return true; },
     [](const Settings& s) { return shown(s.batch); }, batches, batch_keys},
    {"rollout_batch", "sequences a GPU generates and scores at once", false, [](const Settings& s) { return s.trainer == Trainer::ppo; },
     [](const Settings& s) { return shown(s.rollout_batch); },
     [](const Settings& s) { std::vector<std::int64_t> out = settings::doublings(1, 64); out.push_back(s.rollout_batch); return settings::texts(std::move(out)); },
     [](const Settings&, const std::string& v) { return Keys{{"local_rollout_forward_batch_size", v}}; }},
    {"gradient_checkpointing", "layers are recomputed in the backward", false, [](const Settings& s) { return s.trainer != Trainer::ppo; },
     [](const Settings& s) { return shown(s.grad_ckpt); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"gradient_checkpointing", v}}; }},
    {"liger", "fused kernels in the layers and in the loss", false,
     [](const Settings& s) { return (s.trainer == Trainer::sft && s.loss_type != "dft") || (s.pairs() && !(s.trainer == Trainer::dpo && s.since(1, 0))); },
     [](const Settings& s) { return shown(s.liger); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"use_liger_kernel", v}}; }},
    {"activation_offloading", "activations wait for the backward on the host", false,
     [](const Settings& s) { return (s.trainer == Trainer::sft && s.since(0, 18)) || (s.trainer == Trainer::reward && s.since(0, 24)) || (s.trainer == Trainer::dpo && s.since(0, 29)); },
     [](const Settings& s) { return shown(s.offload_activations); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"activation_offloading", v}}; }},
    {"gpu_memory_utilization", "share of the GPU that the engine may take", false, colocated,
     [](const Settings& s) { return shown(s.generation.utilization); }, [](const Settings& s) { return settings::fractions(s.generation.utilization); },
     [](const Settings&, const std::string& v) { return Keys{{"vllm_gpu_memory_utilization", v}}; }},
    {"engine_sleep", "the engine gives its memory back while the model trains", false, [](const Settings& s) { return s.colocated() && s.since(0, s.trainer == Trainer::rloo ? 24 : 23); },
     [](const Settings& s) { return shown(s.generation.sleep); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"vllm_enable_sleep_mode", v}}; }},
    {"engine_length", "tokens that the engine has room for in one request", false, [](const Settings& s) { return s.colocated() && s.since(0, 27); },
     [](const Settings& s) { return shown(s.generation.max_length); },
     [](const Settings& s) { Texts out{"null", shown(s.prompt + s.response)}; if (s.generation.max_length && *s.generation.max_length != s.prompt + s.response) out.push_back(shown(s.generation.max_length)); return out; },
     [](const Settings&, const std::string& v) { return Keys{{"vllm_max_model_length", v}}; }},
    {"rollout_tensor_parallel", "GPUs that share one engine", false, [](const Settings& s) { return s.colocated() && s.model != nullptr; },
     [](const Settings& s) { return shown(s.generation.tensor); },
     [](const Settings& s) { std::vector<std::int64_t> out{s.generation.tensor}; for (const std::int64_t d : settings::divisors(std::min<std::int64_t>(s.gpus, 8))) if (s.gpus % d == 0 && divides_heads(s, d)) out.push_back(d); return settings::texts(std::move(out)); },
     [](const Settings&, const std::string& v) { return Keys{{"vllm_tensor_parallel_size", v}}; }},
    {"gather_for_generation", "ZeRO 3 gathers every weight for the trainer's own generation", false, [](const Settings& s) { return s.generates() && !s.generation.use_vllm && s.zero3(); },
     [](const Settings& s) { return shown(s.gathers_to_generate); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"ds3_gather_for_generation", v}}; }},
    {"weights_dtype", "the type that weights are loaded in", true,
     [](const Settings& s) { return s.since(0, 23) && (s.distributed() == Distributed::none || s.distributed() == Distributed::data_parallel); },
     [](const Settings& s) { return s.dtype == DType::bf16 ? std::string("bfloat16") : s.type.empty() ? std::string("null") : s.type; },
     [](const Settings& s) { Texts out{"bfloat16", "float32"}; if (s.type.empty() && s.dtype == DType::fp32) out.push_back("null"); return out; },
     [](const Settings&, const std::string& v) { return Keys{{"dtype", v}}; }},
    {"sft_loss", "how logits of SFT are formed: whole or in chunks", false, [](const Settings& s) { return s.trainer == Trainer::sft && s.since(1, 4) && !s.liger && s.loss_type != "dft"; },
     [](const Settings& s) { return s.loss_type.empty() ? std::string("null") : s.loss_type; },
     [](const Settings& s) { Texts out{"nll", "chunked_nll"}; if (s.loss_type.empty()) out.push_back("null"); return out; },
     [](const Settings&, const std::string& v) { return Keys{{"loss_type", v}}; }},
};
// clang-format on

const settings::KnobTable<Settings> kTable{"TRL", kRows, assign, make_job};

bool recorded(const ReadJob& read) {
  return static_cast<const Settings&>(*read.settings).recorded;
}

Error no_case() {
  return {.message = "expected TRL's own command or YAML, found a case, which has nothing to vary or write",
          .file = {},
          .key = {}};
}

/// A key as a trainer's YAML has it: Accelerate's flags beside the trainer's own. `distributed_type` is no
/// flag: what it asks for is.
void write_flat(Document& into, const std::string& prefix, const Document& map) {
  for (const auto& [name, value] : map.entries()) {
    if (value.is_map() && prefix.empty() && name == "accelerate") {
      write_flat(into, "accelerate", value);
      continue;
    }
    if (prefix.empty() || name != "distributed_type") {
      into.set(name, value);
      continue;
    }
    const std::string& type = value.text();
    const char* flag = type == "DEEPSPEED"   ? "use_deepspeed"
                       : type == "FSDP"      ? "use_fsdp"
                       : type == "MULTI_GPU" ? "multi_gpu"
                                             : "";
    if (*flag != '\0')
      into.set(flag, Document::scalar("true"));
    else
      into.set("num_processes", Document::scalar("1"));
  }
}

/// Accelerate's keys as its flags have them.
std::vector<Setting> flat(std::span<const Setting> settings) {
  std::vector<Setting> out(settings.begin(), settings.end());
  for (Setting& setting : out) setting.key = std::string(flag_of_key(setting.key));
  return out;
}
/// The same of overrides; those of Headroom's own section, which TRL's parser would refuse, are left out.
ReadJob flat(ReadJob read) {
  constexpr std::string_view kSection = "accelerate.";
  std::erase_if(read.overrides,
                [](const std::string& text) { return text.find("headroom.") < text.find('='); });
  for (std::string& text : read.overrides)
    if (const std::size_t at = text.find(kSection); at < text.find('=')) text.erase(at, kSection.size());
  return read;
}

/// The trainer's YAML alone, with what other files of Headroom's command line said of the launch. A DeepSpeed
/// file goes in as the map that TrainingArguments take too.
ReadJob as_one_yaml(const ReadJob& read) {
  ReadJob out = read;
  const Sources sources = sort_files(read.input);
  out.input.files.clear();
  Document launch = Document::map();
  for (const JobInput::File* file : sources.accelerate)
    write_flat(launch, "", with_accelerate_keys(file->document));
  for (const JobInput::File* file : sources.deepspeed) launch.set("deepspeed", file->document);
  if (!launch.entries().empty()) {
    JobInput::File first;
    first.path = "launch";
    first.document = launch;
    out.input.files.push_back(std::move(first));
  }
  for (const JobInput::File* file : sources.trainers) out.input.files.push_back(*file);
  return out;
}

}  // namespace

std::vector<Knob> knobs(const ReadJob& read) {
  return recorded(read) ? std::vector<Knob>{} : kTable.knobs(read);
}
Result<Job> with(const ReadJob& read, std::span<const Choice> choices) {
  if (recorded(read)) return tl::unexpected<Error>(no_case());
  return kTable.with(read, choices);
}
Result<std::vector<Setting>> settings_for(const ReadJob& read, std::span<const Choice> choices) {
  if (recorded(read)) return tl::unexpected<Error>(no_case());
  return kTable.settings_of(read, choices);
}

Result<std::string> write(const ReadJob& read, std::span<const Setting> settings, const WriteHeader& header) {
  if (recorded(read)) return tl::unexpected<Error>(no_case());
  const Sources sources = sort_files(read.input);
  if (sources.command != nullptr) {
    // `trl` passes on what it does not know; `accelerate launch` takes its own flags before the program.
    const bool passes = sources.command->launch->runner != "accelerate";
    settings::Spelling spelling{.states_false = true, .of_launcher = {}};
    if (!passes)
      spelling.of_launcher = [](const std::string& key) {
        const std::string_view flag = flag_of_key(key);
        return flag == key ? std::string() : std::string(flag);
      };
    if (!passes) return settings::write_arguments(read, settings, header, spelling);
    return settings::write_arguments(flat(read), flat(settings), header, spelling);
  }
  ReadJob one = as_one_yaml(read);
  return write_back(flat(std::move(one)), flat(settings), header);
}

}  // namespace headroom::trl
