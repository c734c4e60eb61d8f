#pragma once

#include <map>
#include <span>
#include <string>

#include "models/base/bytes.h"
#include "models/base/result.h"
#include "planner/writers/gate.h"

namespace headroom::cli {

/// Device peaks that configurations had, by path: what later ones are held against.
class Baseline {
 public:
  /// Reads what `--write-baseline` wrote (`headroom.baseline/1`), or the JSON of `headroom check`.
  static Result<Baseline> read(const std::string& file);

  /// 0: the configuration is new.
  Bytes peak_of(const std::string& path) const;

 private:
  std::map<std::string, Bytes> peaks_;
};

/// The baseline of these results. Configurations that could not be read are left out.
std::string baseline_text(std::span<const writers::GateResult> results);

}  // namespace headroom::cli
