#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/frameworks/registry.h"
#include "planner/frameworks/settings/run.h"
#include "planner/frameworks/settings/table.h"
#include "simulator/job/job.h"

/// ChatLearn's RLHF runs (releases up to 1.0.3): six models on Megatron, generation by Megatron or vLLM, and EMS, which
/// takes models off the GPUs that they share.
namespace headroom::chatlearn::rlhf {

/// What a model gives back while another one works.
struct FreeMemory {
  bool all = false;  ///< `free_memory`: every switch
  bool weights = false, gradients = false, optimizer = false, forced = false;
};

/// A model: its section, and the arguments of the file that the section names.
struct Model {
  std::string name;
  bool exists = false, trained = false;
  std::int64_t gpus = 0;
  std::optional<std::int64_t> generation_batch;
  FreeMemory free;
  bool adapters = false;
  std::int64_t adapter_rank = 8;
  // Arguments of Megatron
  std::int64_t tensor = 1, pipeline = 1;
  bool distributed = false, sequence_parallel = false, recompute_activations = false;
  std::string granularity, method;
  std::optional<std::int64_t> recompute_layers;
  std::optional<std::int64_t> layers, hidden, heads, ffn, groups, vocabulary;
  bool untied = false, groups_queries = false;
  std::int64_t sequence_length = 1024, new_tokens = 512, positions = 4096, vocabulary_multiple = 128;
  // Arguments of vLLM
  double utilization = 0;  ///< 0: Megatron generates
  std::int64_t batched_tokens = 32768, swap_gib = 4;
  std::shared_ptr<const Architecture> architecture;

  bool offloads_weights() const { return free.all || free.weights; }
  bool frees_gradients() const { return trained && (free.all || free.gradients); }
  bool offloads_optimizer() const { return trained && (free.all || free.optimizer); }
};

/// In the order in which they are set up.
inline constexpr std::array<std::string_view, 6> kModels = {"policy", "reference", "value",
                                                            "reward", "ppo_policy", "ppo_value"};
enum ModelIndex : std::size_t { kPolicy, kReference, kValue, kReward, kPpoPolicy, kPpoValue };

struct Settings : settings::TableSettings {
  std::array<Model, kModels.size()> models;
  std::vector<std::string> colocation;
  std::int64_t generation_batch = 2, micro_batch = 2, samples_an_episode = 1000, epochs = 1, save_interval = 0;
  std::optional<std::int64_t> global_batch;
  std::int64_t buffer_mb = 100, bucket_mb = 1024, gpus_per_node = 8;
  std::map<std::string, std::string> placeholders;  ///< by key: the text of the main file that asks for a variable
  std::string script;                               ///< of a run given by its launch: the script's text

  const Model& model(ModelIndex index) const { return models[index]; }
  std::int64_t global() const { return global_batch.value_or(micro_batch); }
  std::int64_t generation_of(const Model& m) const { return m.generation_batch.value_or(generation_batch); }
  /// The group that the model shares its GPUs with; empty: none.
  std::string group_of(std::string_view model) const;
  bool colocated(std::string_view model) const { return !group_of(model).empty(); }
  /// EMS moves the model.
  bool moves(const Model& m) const { return colocated(m.name) || (m.free.forced && since(1, 0, 3)); }
};

bool detect(const JobInput& input);
Result<ReadJob> read(const JobInput& input, const JobOptions& options);

std::vector<settings::Key> keys();
void read_settings(Values& values, Settings& settings);
bool assign(Settings& settings, const Setting& setting);

/// The Job that runs these settings. Errors: what ChatLearn refuses, then what the job's own validation finds.
Result<Job> make_job(const Settings& settings);
std::vector<PhaseSpec> make_start(const Settings& settings);
std::vector<PhaseSpec> make_step(const Settings& settings);

bool is_run(const ReadJob& read);
std::vector<Knob> knobs(const ReadJob& read);
Result<Job> with(const ReadJob& read, std::span<const Choice> choices);
Result<std::vector<Setting>> settings_for(const ReadJob& read, std::span<const Choice> choices);
/// The main file with placeholders' defaults changed; of a script, the script with variables exported before the launch.
Result<std::string> write(const ReadJob& read, std::span<const Setting> settings, const WriteHeader& header);
/// `export NAME=VALUE` lines for what the main file asks the environment for, KEY=VALUE for the rest.
Result<std::string> write_exports(const ReadJob& read, std::span<const Setting> settings, const WriteHeader& header);

}  // namespace headroom::chatlearn::rlhf
