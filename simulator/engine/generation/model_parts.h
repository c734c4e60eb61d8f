#pragma once

#include <cstdint>
#include <vector>

#include "models/architecture/architecture.h"

namespace headroom::engine {

/// A model's parameters and tensors by what a token meets: made once a model, from one layer of each group of
/// equal ones.
class ModelParts {
 public:
  explicit ModelParts(const Architecture& model);

  /// Parameters that `tokens` tokens meet together: of routed experts those that are chosen, of the table of
  /// embeddings none (some rows).
  double met(double tokens) const;
  double all() const { return everywhere_ + table_ + routed_; }
  double routed() const { return routed_; }
  /// Tensors as a checkpoint has them: each expert's matrices are tensors of their own.
  double tensors() const { return tensors_; }
  double routed_tensors() const { return routed_tensors_; }

 private:
  struct Experts {
    double experts = 1, chosen = 1, parameters = 0;
  };
  double everywhere_ = 0, table_ = 0, routed_ = 0, tensors_ = 0, routed_tensors_ = 0;
  std::vector<Experts> experts_;
};

}  // namespace headroom::engine
