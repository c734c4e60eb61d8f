#include "planner/cli/gate/baseline.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/document/document.h"

namespace headroom::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostBytes = 256 << 20;  // of a report of a thousand configurations

std::string plain(const std::string& path) {
  return std::filesystem::path(path).lexically_normal().string();
}

Bytes peak_in(const Json& report) {
  Bytes peak = 0;
  if (!report.is_object() || !report.contains("devices") || !report["devices"].is_array()) return 0;
  for (const Json& device : report["devices"])
    if (device.is_object() && device.contains("phases") && device["phases"].is_array())
      for (const Json& phase : device["phases"])
        if (phase.is_object() && phase.contains("peak_device") && phase["peak_device"].is_number_integer())
          peak = std::max(peak, phase["peak_device"].get<Bytes>());
  return peak;
}

Bytes peak_of_report(const Report& report) {
  Bytes peak = 0;
  for (const DeviceReport& device : report.devices)
    for (const PhaseReport& phase : device.phases) peak = std::max(peak, phase.peak_device);
  return peak;
}

/// Where a text that is no baseline goes wrong: its broken line, else its first.
int line_of_fault(const std::string& text, const std::string& file) {
  const Result<Document> document = parse_document(text, file);
  return document || document.error().line == 0 ? 1 : document.error().line;
}

/// Where `path` stands among the configurations; empty: where these do.
int line_of(const std::string& text, const std::string& file, const std::string& path) {
  const Result<Document> document = parse_document(text, file);
  const Document* found = document ? document->find("configurations") : nullptr;
  if (found != nullptr && !path.empty()) found = found->find(path);
  return found == nullptr ? 0 : found->line();
}

}  // namespace

Result<Baseline> Baseline::read(const std::string& file) {
  HEADROOM_ASSIGN(const std::string text, read_text(file, kMostBytes));
  const Json json = Json::parse(text, nullptr, false);
  const auto bad = [&](std::string message, std::string key, int line) {
    return fail(Error{.message = std::move(message), .file = file, .line = line, .key = std::move(key)});
  };
  if (json.is_discarded() || !json.is_object() || !json.contains("configurations"))
    return bad("expected a baseline (headroom check --write-baseline) or the JSON of headroom check", "",
               line_of_fault(text, file));
  Baseline out;
  const Json& all = json["configurations"];
  if (all.is_object()) {
    for (const auto& [path, entry] : all.items()) {
      if (!entry.is_object() || !entry.contains("peak_device") || !entry["peak_device"].is_number_unsigned() ||
          entry["peak_device"].get<std::uint64_t>() > (std::uint64_t{1} << 60))
        return bad("expected peak_device in bytes", "configurations." + path, line_of(text, file, path));
      out.peaks_[plain(path)] = entry["peak_device"].get<Bytes>();
    }
  } else if (all.is_array()) {
    for (const Json& entry : all)
      if (entry.is_object() && entry.contains("file") && entry["file"].is_string() && entry.contains("report"))
        out.peaks_[plain(entry["file"].get<std::string>())] = peak_in(entry["report"]);
  } else {
    return bad("expected configurations by path", "configurations", line_of(text, file, ""));
  }
  return out;
}

Bytes Baseline::peak_of(const std::string& path) const {
  const auto found = peaks_.find(plain(path));
  return found == peaks_.end() ? 0 : found->second;
}

std::string baseline_text(std::span<const writers::GateResult> results) {
  Json all = Json::object();
  for (const writers::GateResult& result : results)
    if (result.report)
      all[plain(result.path)] = {{"status", writers::name(result.status)},
                                 {"peak_device", peak_of_report(*result.report)}};
  const Json out = {{"schema", "headroom.baseline/1"}, {"configurations", std::move(all)}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace headroom::cli
