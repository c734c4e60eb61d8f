#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/bytes.h"
#include "models/base/result.h"

namespace headroom::cli {

/// A limit as users write it: a size (`76GiB`) or a part of the card (`0.9`, `90%`).
struct Limit {
  std::string pool;            ///< `POOL=…`; empty: every pool
  std::optional<Bytes> bytes;  ///< set for a size
  double fraction = 1;         ///< of the memory that the driver reports, otherwise

  Bytes of(Bytes total) const {
    return bytes ? *bytes : static_cast<Bytes>(fraction * static_cast<double>(total));
  }
};

/// `[POOL=]SIZE` or `[POOL=]FRACTION`. A bare number above 1 is an error: its unit would be a guess.
Result<Limit> parse_limit(std::string_view text);

/// The flags that many commands share, read once. A command only sees those that it declares.
struct Common {
  std::optional<std::string> framework;  ///< else detected
  std::optional<std::string> model;      ///< directory, config.json or preset name
  std::vector<std::string> overrides;    ///< `--set`, in order, in the framework's own grammar
  std::vector<std::string> include_paths;
  std::map<std::string, std::string> environment;  ///< `--env`
  std::vector<std::string> words;                  ///< behind `--`
  std::optional<std::string> gpu;                  ///< profile name or file
  std::optional<std::int64_t> nodes, gpus_per_node;
  std::optional<int> steps;
  std::optional<std::string> lengths;  ///< `mean=…,max=…` or a file
  double other_seconds = 0;            ///< of every step, beside what is predicted
  std::vector<Limit> budgets;
  std::optional<Bytes> host_budget;  ///< a node
  std::optional<Limit> margin;
  std::optional<std::string> json, html, csv, markdown;  ///< files; `-` is standard output
  bool quiet = false;
  bool every_phase = false;  ///< `--all`
};

/// What a command line says, by flag (`--yaml`) or positional name (`CONFIG`).
class Arguments {
 public:
  Common common;

  bool has(std::string_view name) const { return values_.find(name) != values_.end(); }
  /// All values in order; empty when absent.
  const std::vector<std::string>& all(std::string_view name) const;
  /// The last value, or `fallback`.
  std::string text(std::string_view name, std::string_view fallback = {}) const;
  std::optional<std::string> find(std::string_view name) const;

  /// The value as a number in [low, high]; the error names the flag. Nothing when absent.
  Result<std::optional<std::int64_t>> integer(std::string_view name, std::int64_t low,
                                              std::int64_t high) const;
  Result<std::optional<double>> number(std::string_view name, double low, double high) const;
  Result<std::optional<Bytes>> bytes(std::string_view name) const;

  void add(std::string name, std::string value) { values_[std::move(name)].push_back(std::move(value)); }
  /// A flag without a value was given.
  void mark(std::string name) { values_[std::move(name)]; }

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
};

/// Reads the shared flags out of `arguments`.
Result<Common> read_common(const Arguments& arguments);

}  // namespace headroom::cli
