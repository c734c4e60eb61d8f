#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "models/base/result.h"
#include "simulator/engine/account.h"

namespace headroom::test {

/// A start-up log of vLLM or SGLang, and what Headroom says of the same start.
struct EngineLog {
  std::string id, source, version, model, gpu, problem;  ///< problem: why there is no prediction
  Engine engine;
  engine::Account start;    ///< of the row's stage
  engine::Account fullest;  ///< of the stage that decides the KV cache

  /// One printed figure beside the predicted one; GiB, or tokens.
  struct Figure {
    std::string name;
    double printed = 0, predicted = 0;
    double of = 0;  ///< what an error is a share of; 0: the printed figure
    double error() const { return of > 0 ? (predicted - printed) / of : predicted / printed - 1; }
  };
  std::vector<Figure> figures;
  bool negative_graphs = false;  ///< printed by the log
};

/// Rows of a collection of start-up logs (tests/data/engines/startup.json). Models that Headroom does not know
/// and cards that the log does not state leave a row without figures and with its problem.
Result<std::vector<EngineLog>> read_engine_logs(const std::filesystem::path& file);

/// |error| of a figure over all rows that print it.
struct Spread {
  std::size_t count = 0;
  double mean = 0, median = 0, worst = 0;
  std::string worst_row;
};
Spread spread(const std::vector<EngineLog>& logs, const std::string& figure);

/// What docs/ENGINES.md shows of them: every row with its signed errors, and their spread.
std::string engine_log_tables(const std::vector<EngineLog>& logs);

}  // namespace headroom::test
