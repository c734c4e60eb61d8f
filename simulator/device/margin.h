#pragma once

#include <string>
#include <vector>

#include "models/base/bytes.h"
#include "models/base/result.h"
#include "models/document/document.h"

namespace headroom {

/// What is kept free for prediction error, by kind of phase. Data: configs/margins.yaml, compiled in.
class Margins {
 public:
  /// The values that this build carries.
  static const Margins& builtin();
  /// Reads such a file; a margin beyond its bounds (max(3 %, 1 GiB), with an engine max(5 %, 2 GiB)) is an
  /// error.
  static Result<Margins> read(const Document& document, const std::string& file);

  /// For `phase` on a card of `total` bytes. A phase that the table does not list counts by whether a rollout
  /// engine's weights are on the card.
  Bytes of(const std::string& phase, bool engine_awake, Bytes total) const;
  /// For a card that engines have to themselves: their cache takes what is left of the share that they are given,
  /// so that only what stands outside of it (context, graphs) can be mistaken. No part of the card, only the size.
  Bytes of_engines_alone() const { return engine_.bytes; }

 private:
  struct Margin {
    double fraction = 0;
    Bytes bytes = 0;
  };
  Margin default_, engine_;
  std::vector<std::pair<std::string, bool>> phases_;  ///< name, counts as engine
};

}  // namespace headroom
