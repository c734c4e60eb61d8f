#include "tests/support/public_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "models/presets/presets.h"

namespace headroom::test {
namespace {

using nlohmann::json;

const std::string kRole = "actor_rollout_ref.";

/// Words of launch scripts and the verl keys that they are put into.
const std::multimap<std::string, std::string>& script_words() {
  static const std::multimap<std::string, std::string> words = [] {
    std::multimap<std::string, std::string> out;
    const auto add = [&](const char* word, std::initializer_list<const char*> keys) {
      for (const char* key : keys) out.emplace(word, key);
    };
    for (const char* word : {"max_prompt_length", "max_response_length", "train_batch_size"})
      out.emplace(word, std::string("data.") + word);
    for (const char* word :
         {"lora_rank", "target_modules", "use_remove_padding", "enable_gradient_checkpointing"})
      out.emplace(word, kRole + "model." + word);
    for (const char* word : {"ppo_mini_batch_size", "ppo_micro_batch_size_per_gpu",
                             "ppo_max_token_len_per_gpu", "use_dynamic_bsz", "use_kl_loss", "entropy_coeff"})
      out.emplace(word, kRole + "actor." + word);
    for (const char* word :
         {"gpu_memory_utilization", "max_num_seqs", "max_model_len", "max_num_batched_tokens",
          "enable_chunked_prefill", "load_format", "layered_summon"})
      out.emplace(word, kRole + "rollout." + word);
    add("rollout_n", {"actor_rollout_ref.rollout.n"});
    add("rollout_tp", {"actor_rollout_ref.rollout.tensor_model_parallel_size"});
    add("ulysses_sp", {"actor_rollout_ref.actor.ulysses_sequence_parallel_size"});
    add("param_offload", {"actor_rollout_ref.actor.fsdp_config.param_offload"});
    add("optimizer_offload", {"actor_rollout_ref.actor.fsdp_config.optimizer_offload"});
    add("ref_param_offload", {"actor_rollout_ref.ref.fsdp_config.param_offload"});
    add("ppo_micro_batch_size_global", {"actor_rollout_ref.actor.ppo_micro_batch_size"});
    add("log_prob_micro_batch_size_global", {"actor_rollout_ref.rollout.log_prob_micro_batch_size",
                                             "actor_rollout_ref.ref.log_prob_micro_batch_size"});
    add("log_prob_micro_batch_size_per_gpu", {"actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu",
                                              "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu"});
    add("train_prompt_bsz", {"data.train_batch_size"});
    add("n_resp_per_prompt", {"actor_rollout_ref.rollout.n"});
    add("train_prompt_mini_bsz", {"actor_rollout_ref.actor.ppo_mini_batch_size"});
    add("ulysses_sp_size", {"actor_rollout_ref.actor.ulysses_sequence_parallel_size"});
    add("actor_ppo_max_token_len", {"actor_rollout_ref.actor.ppo_max_token_len_per_gpu"});
    add("infer_ppo_max_token_len", {"actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu",
                                    "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu"});
    add("offload", {"actor_rollout_ref.actor.fsdp_config.param_offload",
                    "actor_rollout_ref.actor.fsdp_config.optimizer_offload"});
    add("gen_tp", {"actor_rollout_ref.rollout.tensor_model_parallel_size"});
    add("TP", {"actor_rollout_ref.actor.megatron.tensor_model_parallel_size"});
    add("PP", {"actor_rollout_ref.actor.megatron.pipeline_model_parallel_size"});
    add("EP", {"actor_rollout_ref.actor.megatron.expert_model_parallel_size"});
    return out;
  }();
  return words;
}

using Keys = std::map<std::string, std::string>;

std::string value_text(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

Keys verl_keys(const json& config) {
  Keys out;
  for (const auto& [word, value] : config.items()) {
    if (value.is_object()) continue;
    const auto [first, last] = script_words().equal_range(word);
    if (first == last) out[word] = value_text(value);
    for (auto at = first; at != last; ++at) out[at->second] = value_text(value);
  }
  for (const auto& [key, value] : out)
    if (key.find(".megatron.") != std::string::npos) {
      out[kRole + "actor.strategy"] = "megatron";
      break;
    }
  return out;
}

/// The model: the key's, or the first word of what the report calls it where a model of that name is known.
void name_model(const json& report, Keys& keys) {
  const std::string key = kRole + "model.path";
  if (keys.count(key) > 0) return;
  const std::string words = report.at("model").get<std::string>();
  const std::string name = words.substr(0, words.find(' '));
  if (look_up_preset(name)) keys[key] = name;
}

void add_versions(const json& report, Keys& keys) {
  if (!report.contains("version") || !report["version"].is_string()) return;
  const std::string text = report["version"].get<std::string>();
  std::smatch found;
  if (std::regex_search(text, found, std::regex("vllm *([0-9]+\\.[0-9]+(\\.[0-9]+)?)")))
    keys["headroom.versions.vllm"] = found[1];
  if (std::regex_search(text, found, std::regex("^v?([0-9]+\\.[0-9]+\\.[0-9]+)")))
    keys["headroom.versions.verl"] = found[1];
}

/// Keys that decide memory and whose default says nothing about a run: one of each group must be stated.
std::vector<std::string> missing_keys(const Keys& keys, bool complete) {
  using Group = std::vector<std::string>;
  const std::string actor = kRole + "actor.", rollout = kRole + "rollout.";
  const std::array<Group, 12> needed = {{
      {kRole + "model.path"},
      {"data.max_prompt_length"},
      {"data.max_response_length"},
      {"data.train_batch_size"},
      {actor + "ppo_mini_batch_size"},
      {actor + "ppo_max_token_len_per_gpu", actor + "ppo_micro_batch_size_per_gpu",
       actor + "ppo_micro_batch_size"},
      {actor + "fsdp_config.param_offload", actor + "megatron.param_offload"},
      {actor + "fsdp_config.optimizer_offload", actor + "megatron.optimizer_offload"},
      {rollout + "name"},
      {rollout + "n"},
      {rollout + "tensor_model_parallel_size"},
      {rollout + "gpu_memory_utilization"},
  }};
  std::vector<std::string> out;
  for (const Group& group : needed) {
    const bool stated =
        std::any_of(group.begin(), group.end(), [&](const std::string& key) { return keys.count(key) > 0; });
    const bool without_default = group.front() == kRole + "model.path";
    if (!stated && (!complete || without_default)) out.push_back(group.front());
  }
  return out;
}

PublicReport translate(const json& report, Keys keys, bool complete) {
  PublicReport out;
  out.id = report.at("id");
  out.url = report.at("url");
  out.gpu = report.at("gpu");
  out.outcome = report.at("outcome");
  out.phase = report.value("phase", "");
  out.caution = report.value("caution", "");
  const int nodes = report.at("nodes"), gpus = report.at("gpus_per_node");
  out.what = fmt::format("{}, {}{} {}", report.at("model").get<std::string>(),
                         nodes > 1 ? std::to_string(nodes) + " x " : "", gpus, out.gpu);
  name_model(report, keys);
  if (report.contains("dataset")) keys["data.train_files"] = report["dataset"];
  add_versions(report, keys);
  keys["headroom.gpu"] = out.gpu;
  keys["trainer.nnodes"] = std::to_string(nodes);
  keys["trainer.n_gpus_per_node"] = std::to_string(gpus);
  out.missing = missing_keys(keys, complete);
  for (const auto& [key, value] : keys) out.overrides.push_back("++" + key + "=" + value);
  return out;
}

/// One report a size that the author tried: `sizes` are the keys that all hold so many sequences a GPU.
void expand(const json& report, const Keys& keys, bool complete, std::vector<PublicReport>& out) {
  const std::int64_t gpus =
      report.at("nodes").get<std::int64_t>() * report.at("gpus_per_node").get<std::int64_t>();
  for (const char* outcome : {"fits", "oom"})
    for (const std::int64_t size : report.at("tried").at(outcome)) {
      Keys scaled = keys;
      for (const std::string word : report.at("sizes")) {
        const auto [first, last] = script_words().equal_range(word);
        if (first == last) scaled[word] = std::to_string(size * gpus);
        for (auto at = first; at != last; ++at) scaled[at->second] = std::to_string(size * gpus);
      }
      PublicReport one = translate(report, std::move(scaled), complete);
      one.id += fmt::format(" @{}", size);
      one.what += fmt::format(", {} sequences a GPU", size);
      one.outcome = outcome;
      one.phase.clear();
      one.caution = report.value("tried_caution", "");
      out.push_back(std::move(one));
    }
}

void mark_contradictions(std::vector<PublicReport>& reports) {
  for (PublicReport& a : reports)
    for (const PublicReport& b : reports)
      if (&a != &b && a.missing.empty() && a.overrides == b.overrides && a.outcome != b.outcome)
        a.caution = "the same keys as " + b.id + ", which reports the opposite";
}

}  // namespace

Result<std::vector<PublicReport>> read_public_reports(const std::string& path) {
  std::ifstream file(path);
  const json all = json::parse(file, nullptr, false);
  if (!all.is_array()) return fail(path + ": expected a list of reports");
  std::map<std::string, const json*> by_id;
  for (const json& report : all) by_id[report.at("id")] = &report;
  std::vector<PublicReport> out;
  for (const json& report : all) {
    // A report may only name the script whose keys it ran with.
    const json& source = report.contains("keys_of") ? *by_id.at(report["keys_of"]) : report;
    // One that names a public script ran with its keys, changed by what the report says of them.
    const bool scripted = source.contains("script_config");
    const bool complete = source.at("complete") || scripted;
    Keys keys = verl_keys(source.at("config"));
    if (scripted) keys.merge(verl_keys(source.at("script_config")));
    if (&source != &report) add_versions(source, keys);
    if (report.contains("tried")) expand(report, keys, complete, out);
    // The size that a script ships with may be one of those tried.
    if (!report.value("ships_a_tried_size", false))
      out.push_back(translate(report, std::move(keys), complete));
  }
  mark_contradictions(out);
  return out;
}

}  // namespace headroom::test
