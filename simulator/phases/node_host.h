#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>

#include "simulator/job/job.h"
#include "simulator/memory/component.h"

namespace headroom {

/// Host memory of one node over time: what the processes of its GPUs hold, models being loaded, and the
/// processes themselves. All GPUs of a node do the same at the same time.
class NodeHost {
 public:
  NodeHost(const Job& job, const Pool& pool);

  /// A trainer process (one a GPU) reached `peak` and now holds `now`. `gathered`: a role that its checkpoint
  /// makes whole beside it, on one rank; or null.
  void trainer(std::size_t process, const Breakdown& peak, const Breakdown& now, const Role* gathered = nullptr);
  /// An engine process (one a GPU) holds `bytes` of weights.
  void engine(std::size_t process, Bytes bytes);
  /// `role` is loaded: whole on one rank of each shard group, or on every rank. Its files stay in shared
  /// memory where they were copied there, once a node for all roles of the model.
  void loading(const Role& role);

  /// The highest total since the last call, at its first moment.
  Breakdown take_peak();

 private:
  Breakdown total() const;
  void consider(const Breakdown& total);

  const Job& job_;
  std::int64_t gpus_;
  Breakdown processes_;  ///< themselves, and files that they keep in shared memory
  std::set<std::shared_ptr<const Architecture>> shared_;  ///< models whose files lie there
  std::map<std::size_t, Breakdown> held_;
  Breakdown peak_;
};

}  // namespace headroom
