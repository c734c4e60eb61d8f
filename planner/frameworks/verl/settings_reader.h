#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "planner/frameworks/verl/settings.h"
#include "planner/frameworks/verl/words.h"

namespace headroom::verl {

/// Reads `Settings` key by key. One group of methods a concept, each in a file of its own; they run in the
/// order of `read`, since later ones ask what earlier ones found.
class SettingsReader {
 public:
  SettingsReader(Values& values, const Version& version, const JobOptions& options, const std::string& base)
      : v_(values), options_(options), base_(base) {
    s_.version = version;
  }

  Settings read();

 private:
  // --- Whatever the key

  std::string variable(const std::string& name);
  void not_modelled(const std::string& key, const std::string& what);
  /// The word at `key`; one that no program covers leaves the verdict undetermined.
  std::string covered(const std::string& key, Words words, std::string_view fallback = "");
  /// The words of a list, each one of `words`.
  std::vector<std::string> each_of(const std::string& key, Words words);

  // --- The run: read_settings.cc

  void hardware();
  void pools();
  void batch();
  void algorithm();
  void trainer();
  void models();
  std::shared_ptr<const Architecture> find(const ModelSettings& model, const std::string& key, HeadKind head);

  // --- What trains or scores under FSDP or Megatron: read_workers.cc

  Strategy strategy(const std::string& key, Strategy fallback);
  /// Only the keys of the backend that runs.
  void backend(Worker& worker, const std::string& fsdp_at, const std::string& megatron_at);
  Fsdp fsdp(const std::string& at);
  Megatron megatron(const std::string& at);
  void read_switches(const std::string& at, const std::string& transformer, MegatronSwitches& out);
  OptimizerSettings optimizer(const std::string& at, Strategy strategy);
  ModelSettings model(const std::string& at);
  Lora lora(const std::string& at);
  /// What the adapters' targets come to in the model, where they are expressions or some modules are left out.
  void choose_modules(Worker& worker, const std::string& at);
  bool is_list(const std::string& key);
  void read_adapter(const std::string& adapter, const std::string& at, Lora& out);
  /// Sizes of a pass: `micro` and the deprecated global key, whose value old releases divide over the ranks.
  Packing packing(bool dynamic, const std::string& micro, const std::string& deprecated,
                  const std::string& tokens, std::int64_t ranks);
  std::int64_t ulysses(const std::string& at, const std::string& fsdp_at);
  std::int64_t data_ranks(const Worker& worker) const;
  void checkpoint(const std::string& at, Worker& worker);
  void actor();
  void loss();
  void share_groups(Worker& worker, const std::string& at);
  void ref();
  void critic();
  /// The reward model of old releases: a classifier under FSDP, on the trainer's GPUs.
  void fsdp_reward();

  // --- Engines: read_engines.cc

  void rollout();
  double fraction(const std::string& key, double fallback);
  /// engine_kwargs are passed through by verl and may override anything.
  void vllm_arguments(EngineSettings& e);
  void sglang_arguments(EngineSettings& e);
  void reward();
  /// On-policy distillation: its loss, and the engines of its teachers: read_distillation.cc
  void distillation();
  Teacher teacher(const std::string& name);

  Values& v_;
  const JobOptions& options_;
  std::string base_;
  Settings s_;
  std::vector<std::string> assumptions_;
};

/// Largest count that is taken for meant; products of two still fit 63 bits.
inline constexpr std::int64_t kMost = std::int64_t{1} << 30;

}  // namespace headroom::verl
