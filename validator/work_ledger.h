#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "simulator/hardware/hardware.h"
#include "simulator/memory/operation.h"

namespace headroom::gpu {

/// How an operation was done.
enum class Done : std::uint8_t {
  kernel,   ///< by a kernel of its kind on the card
  host,     ///< by the host, which it belongs to
  alone,    ///< a collective with nobody to talk to: this rank's part was copied, the others' place written
  touched,  ///< without a kernel of its kind: its outputs were written
};

/// Operations of one kind.
struct KindCount {
  std::int64_t operations = 0, host = 0, alone = 0, touched = 0;
  double bytes = 0, flops = 0;  ///< bytes read plus written, of host operations on the host
};

/// Operations of one name, with how much they hold and take.
struct NamedOperation {
  std::string name;
  std::int64_t operations = 0, touched = 0;
  Bytes held = 0;      ///< the most that blocks which it made held at once
  double seconds = 0;  ///< all of them, as the card's rates say
};

/// What a probe did with its operations.
struct WorkSummary {
  std::map<std::string, KindCount> kinds;
  std::map<std::string, std::int64_t> touched;  ///< names of operations without a kernel
  /// The names whose operations hold most memory and take most time, ten each, the first the most.
  std::vector<NamedOperation> by_memory, by_time;

  KindCount total() const;
  /// Names of the heaviest of which not every operation had a kernel; each once.
  std::vector<std::string> heaviest_touched() const;
};

/// Counts what is done with operations, and what the blocks that they make hold. Constant time a call.
class WorkLedger {
 public:
  /// `hardware` outlives the ledger; without rates of the card bytes stand for seconds.
  explicit WorkLedger(const Hardware& hardware) : hardware_(hardware) {}

  /// `host_bytes`: read plus written in host memory.
  void did(const Operation& operation, Done done, Bytes host_bytes = 0);
  /// An operation (its index in the table of names) made a block; the block is gone.
  void took(std::uint16_t operation, Bytes bytes);
  void gave(std::uint16_t operation, Bytes bytes);

  WorkSummary summary() const;

 private:
  struct Named {
    std::int64_t operations = 0, touched = 0;
    Bytes held = 0, highest = 0;
    double seconds = 0;
  };
  Named& named(std::uint16_t operation);
  double seconds(const Operation& operation) const;

  const Hardware& hardware_;
  std::array<KindCount, static_cast<std::size_t>(OperationKind::broadcast) + 1> kinds_{};
  std::vector<Named> named_;  ///< by the name's index
};

/// `matmul`, `all_gather`, …
const char* kind_name(OperationKind kind);

}  // namespace headroom::gpu
