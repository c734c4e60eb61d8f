#include "tests/support/engine_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "models/architecture/read.h"
#include "models/presets/presets.h"
#include "planner/frameworks/engines/facts.h"
#include "simulator/hardware/library.h"

namespace headroom::test {
namespace {

using nlohmann::json;

constexpr double kGiBs = static_cast<double>(kGiB);
constexpr const char* kNames[] = {"weights", "activation", "non-torch", "KV cache", "KV tokens", "graphs"};

DType weights_of(const json& settings) {
  const std::string q = settings.value("quantization", "");
  if (q.empty()) return *parse_dtype(settings.value("dtype", "bf16"));
  if (q == "fp8") return DType::fp8;
  if (q == "int8") return DType::int8;
  return q == "mxfp4" ? DType::fp4 : DType::nf4;
}

std::optional<std::int64_t> number(const json& settings, const char* key) {
  const auto at = settings.find(key);
  return at == settings.end() || !at->is_number() ? std::nullopt : std::optional(at->get<std::int64_t>());
}

/// The share of the card that a start's printed figures add up to, in whole hundredths, where it prints all four: what
/// was given, whatever a row's settings say. Nothing where they add up to no whole one.
std::optional<double> printed_share(const json& measured) {
  constexpr double kPrinted = 0.0005;  // two decimals of four figures, of a card
  double sum = 0;
  for (const char* key : {"weights_gib", "non_torch_gib", "activation_peak_gib", "kv_gib"}) {
    if (!measured.contains(key) || !measured.at(key).is_number()) return std::nullopt;
    sum += measured.at(key).get<double>();
  }
  if (!measured.contains("total_gib")) return std::nullopt;
  const double share = sum / measured.at("total_gib").get<double>(), whole = std::round(100 * share) / 100;
  return std::abs(share - whole) < kPrinted ? std::optional(whole) : std::nullopt;
}

Engine engine_of(const json& row, const Hardware& card, std::shared_ptr<const Architecture> model) {
  const json& s = row.at("settings");
  Engine e;
  e.kind = row.at("engine") == "sglang" ? EngineKind::sglang : EngineKind::vllm;
  e.model = std::move(model);
  e.weights = weights_of(s);
  e.tensor = s.value("tp", 1);
  e.pipeline = s.value("pp", 1);
  e.data = s.value("dp", 1);
  e.max_length = number(s, "max_model_len").value_or(0);
  const std::string id = row.at("id");
  const engines::Installation installation{.first_engine = id.rfind("v0-", 0) == 0};
  engines::set_release(e, row.at("version").get<std::string>(), installation);
  const engines::Limits limits =
      engines::default_limits(e, card, engines::EntryPoint::server, installation);
  e.max_sequences = number(s, "max_num_seqs").value_or(limits.sequences);
  e.max_batched_tokens = number(s, "max_num_batched_tokens").value_or(limits.batched_tokens);
  e.kv = s.value("kv_dtype", "auto") == "fp8" ? DType::fp8
         : e.weights == DType::fp32           ? DType::fp32
                                              : DType::bf16;
  if (s.contains("utilization")) e.utilization = s.at("utilization");
  if (const auto share = printed_share(row.at("measured"))) e.utilization = *share;
  e.graphs = !s.value("eager", false);
  if (const auto most = number(s, "max_capture")) e.capture_sizes = {*most};
  if (const auto tokens = number(s, "max_total_tokens")) e.blocks_override = *tokens;
  return e;
}

void add(EngineLog& log, const json& measured, const char* name, const char* key, double predicted) {
  const auto at = measured.find(key);
  if (at != measured.end() && at->is_number() && at->get<double>() > 0)
    log.figures.push_back({name, at->get<double>(), predicted});
}

void add_figures(EngineLog& log, const json& measured) {
  const auto gib = [](Bytes bytes) { return static_cast<double>(bytes) / kGiBs; };
  const engine::Account& a = log.start;
  const bool sglang = log.engine.kind == EngineKind::sglang;
  const Bytes counted = log.engine.counts_others ? a.context + a.communicators : 0;
  add(log, measured, kNames[0], "weights_gib", gib(a.weights + (sglang ? a.growth : 0)));
  add(log, measured, kNames[1], "activation_peak_gib", gib(a.profiled_activation));
  add(log, measured, kNames[2], "non_torch_gib", gib(a.growth + counted));
  if (log.engine.pipeline == 1) add(log, measured, kNames[3], "kv_gib", gib(a.kv));
  if (!log.figures.empty() && log.figures.back().name == kNames[3] && measured.contains("total_gib"))
    log.figures.back().of = measured.at("total_gib");
  add(log, measured, kNames[4], "kv_tokens", static_cast<double>(log.fullest.tokens));
  add(log, measured, kNames[5], "graphs_gib", gib(a.graphs));
}

Result<EngineLog> read_row(const json& row) {
  const json& s = row.at("settings");
  EngineLog log;
  log.id = row.at("id");
  log.source = row.at("source");
  log.version = fmt::format("{} {}", row.at("engine").get<std::string>(), row.at("version").get<std::string>());
  log.model = s.at("model");
  log.gpu = s.value("gpu", "");
  if (!s.contains("gpu_profile") || !s.contains("utilization")) {
    log.problem = "the log does not state card or utilization";
    return log;
  }
  const auto config = find_preset(s.at("shape").get<std::string>());
  if (!config) {
    log.problem = "no model of that name is known";
    return log;
  }
  HEADROOM_ASSIGN(const Architecture model, make_architecture(*config, s.at("shape").get<std::string>()));
  HEADROOM_ASSIGN(Hardware card, load_hardware(s.at("gpu_profile").get<std::string>()));
  const json& measured = row.at("measured");
  if (measured.contains("total_gib"))  // several cards share a profile
    card.total_memory = static_cast<Bytes>(measured.at("total_gib").get<double>() * kGiBs);
  log.engine = engine_of(row, card, std::make_shared<Architecture>(model));
  const engine::Host host = engine::host_of(card);
  HEADROOM_ASSIGN(log.fullest, engine::account(log.engine, host, {}));
  log.start = log.fullest;
  if (const auto stage = number(s, "stage")) {
    HEADROOM_ASSIGN(log.start,
                    engine::account(log.engine, host, {}, engine::Stage{*stage, log.engine.pipeline}));
  }
  add_figures(log, measured);
  log.negative_graphs = measured.contains("graphs_gib") && measured.at("graphs_gib").is_number() &&
                        measured.at("graphs_gib").get<double>() < 0;
  return log;
}

/// A release that gives memory back while it captures prints a difference, in some logs a negative one: none of its logs
/// tells what its graphs take.
void leave_out_differences(std::vector<EngineLog>& logs) {
  std::set<std::string> releases;
  for (const EngineLog& log : logs)
    if (log.negative_graphs) releases.insert(log.version);
  for (EngineLog& log : logs)
    if (releases.contains(log.version))
      std::erase_if(log.figures, [](const EngineLog::Figure& figure) { return figure.name == "graphs"; });
}

const EngineLog::Figure* find(const EngineLog& log, const std::string& name) {
  const auto at = std::find_if(log.figures.begin(), log.figures.end(),
                               [&](const EngineLog::Figure& figure) { return figure.name == name; });
  return at == log.figures.end() ? nullptr : &*at;
}

std::string cell(const EngineLog& log, const char* name) {
  const EngineLog::Figure* figure = find(log, name);
  if (figure == nullptr) return "";
  const bool tokens = std::string(name) == "KV tokens";
  return tokens ? fmt::format("{:.0f} ({:+.1f} %)", figure->printed, 100 * figure->error())
                : fmt::format("{:.2f} ({:+.2f})", figure->printed, figure->predicted - figure->printed);
}

}  // namespace

Result<std::vector<EngineLog>> read_engine_logs(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) return fail(fmt::format("{} can't be read", file.string()));
  std::vector<EngineLog> out;
  for (const json& row : json::parse(in)) {
    HEADROOM_ASSIGN(EngineLog log, read_row(row));
    out.push_back(std::move(log));
  }
  leave_out_differences(out);
  return out;
}

Spread spread(const std::vector<EngineLog>& logs, const std::string& figure) {
  std::vector<double> errors;
  Spread out;
  for (const EngineLog& log : logs)
    if (const EngineLog::Figure* found = find(log, figure)) {
      const double error = std::abs(found->error());
      if (errors.empty() || error > out.worst) {
        out.worst = error;
        out.worst_row = log.id;
      }
      errors.push_back(error);
      out.mean += error;
    }
  out.count = errors.size();
  if (errors.empty()) return out;
  out.mean /= static_cast<double>(errors.size());
  std::sort(errors.begin(), errors.end());
  out.median = errors[errors.size() / 2];
  return out;
}

std::string engine_log_tables(const std::vector<EngineLog>& logs) {
  std::string out = "| figure | rows | mean | median | worst | in |\n|---|---|---|---|---|---|\n";
  for (const char* name : kNames) {
    const Spread s = spread(logs, name);
    if (s.count > 0)
      out += fmt::format("| {} | {} | {:.2f} % | {:.2f} % | {:.1f} % | {} |\n", name, s.count, 100 * s.mean,
                         100 * s.median, 100 * s.worst, s.worst_row);
  }
  out += "\n| log | engine | model | card | TP×PP |";
  for (const char* name : kNames) out += fmt::format(" {} |", name);
  out += "\n|---|---|---|---|---|---|---|---|---|---|---|\n";
  std::string without;
  for (const EngineLog& log : logs) {
    if (!log.problem.empty()) {
      without += fmt::format("| {} | {} | {} | {} |\n", log.id, log.version, log.model, log.problem);
      continue;
    }
    out += fmt::format("| {} | {} | {} | {} | {}×{} |", log.id, log.version, log.model, log.gpu,
                       log.engine.tensor, log.engine.pipeline);
    for (const char* name : kNames) out += fmt::format(" {} |", cell(log, name));
    out += "\n";
  }
  return out + "\nLeft out:\n\n| log | engine | model | why |\n|---|---|---|---|\n" + without;
}

}  // namespace headroom::test
