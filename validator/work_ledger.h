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

/// Operations of one name, those with a kernel and those without apart, with how much they hold and take.
struct NamedOperation {
  std::string name;
  std::int64_t operations = 0, touched = 0;  ///< `touched`: none or all of them
  Bytes held = 0;                            ///< the most that blocks which they wrote first held at once
  double seconds = 0;                        ///< all of them, as the card's rates say
};

/// What a probe did with its operations.
struct WorkSummary {
  std::map<std::string, KindCount> kinds;
  std::map<std::string, std::int64_t> touched;  ///< names of operations without a kernel
  /// Those that hold most memory and take most time, ten each, the first the most.
  std::vector<NamedOperation> by_memory, by_time;

  KindCount total() const;
  /// Names of the heaviest without a kernel, each once.
  std::vector<std::string> heaviest_touched() const;
};

/// Counts what is done with operations, and what the blocks that they make hold. Constant time a call.
class WorkLedger {
 public:
  /// `hardware` outlives the ledger; without rates of the card bytes stand for seconds.
  explicit WorkLedger(const Hardware& hardware) : hardware_(hardware) {}

  /// Which operations an entry of the ledger counts.
  enum class Entry : std::uint32_t {};

  /// `host_bytes`: read plus written in host memory.
  Entry did(const Operation& operation, Done done, Bytes host_bytes = 0);
  /// Such an operation was the first to write a block; the block is gone.
  void took(Entry entry, Bytes bytes);
  void gave(Entry entry, Bytes bytes);

  WorkSummary summary() const;

 private:
  struct Named {
    std::int64_t operations = 0;
    Bytes held = 0, highest = 0;
    double seconds = 0;
  };
  Named& named(Entry entry) { return named_[static_cast<std::size_t>(entry)]; }
  double seconds(const Operation& operation) const;

  const Hardware& hardware_;
  std::array<KindCount, static_cast<std::size_t>(OperationKind::broadcast) + 1> kinds_{};
  std::vector<Named> named_;  ///< by the name's index: with a kernel, then without
};

/// `matmul`, `all_gather`, …
const char* kind_name(OperationKind kind);

}  // namespace headroom::gpu
