#include "planner/frameworks/sizes.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace headroom {
namespace {

constexpr std::array<SizeKey, 3> kCluster = {
    {{"nodes", kNodesFlag}, {"gpus_per_node", kGpusPerNodeFlag}, {"gpus", kGpusFlag}}};

/// None: its pools are of different nodes, so that no one number says what the cluster is.
std::optional<std::string> of_cluster(const Job& job, std::string_view key) {
  std::int64_t nodes = 0, each = 0;
  for (const Pool& pool : job.pools) {
    if (each != 0 && pool.gpus_per_node != each) return {};
    each = pool.gpus_per_node;
    nodes += pool.nodes;
  }
  return std::to_string(key == kNodesFlag ? nodes : key == kGpusFlag ? nodes * each : each);
}

bool decides(const KeyUse& use) {
  return use.state == KeyUse::State::used || use.state == KeyUse::State::defaulted;
}

/// What the run has at `key`. Readers that account for no keys use all of them.
std::optional<std::string> current(const ReadJob& read, std::string_view key) {
  if (key.starts_with("--")) return of_cluster(read.job, key);
  for (const KeyUse& use : read.keys)
    if (use.key == key && decides(use)) return use.value;
  if (!read.keys.empty()) return {};
  for (const JobInput::File& file : read.input.files)
    if (const Document* found = file.document.find_path(key); found != nullptr && found->is_scalar())
      return found->text();
  return {};
}

std::optional<Size> of_rows(const ReadJob& read, std::span<const SizeKey> rows, std::string_view name) {
  for (const SizeKey& row : rows)
    if (row.name == name)
      if (const auto value = current(read, row.key)) return Size{std::string(name), std::string(row.key), *value};
  return {};
}

bool is_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

std::optional<Size> find_size(const ReadJob& read, std::span<const SizeKey> table, const std::string& text) {
  if (std::optional<Size> size = of_rows(read, table, text)) return size;
  if (std::optional<Size> size = of_rows(read, kCluster, text)) return size;
  if (const auto value = current(read, text); value && is_number(*value)) return Size{text, text, *value};
  std::optional<Size> found;
  for (const KeyUse& use : read.keys) {
    if (!decides(use) || !is_number(use.value) || !use.key.ends_with("." + text)) continue;
    if (found) return {};
    found = Size{use.key, use.key, use.value};
  }
  return found;
}

std::vector<std::string> size_names(const ReadJob& read, std::span<const SizeKey> table) {
  std::vector<std::string> out;
  for (const std::span<const SizeKey> rows : {table, std::span<const SizeKey>(kCluster)})
    for (const SizeKey& row : rows)
      if (std::find(out.begin(), out.end(), row.name) == out.end() && of_rows(read, rows, row.name))
        out.emplace_back(row.name);
  return out;
}

}  // namespace headroom
