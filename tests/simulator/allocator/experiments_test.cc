// Programs that ran on PyTorch's real allocators (validator/pytorch/allocator_experiments.py) run here
// through the simulated ones: after every operation all statistics and placements are the same.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "simulator/allocator/caching_allocator.h"
#include "simulator/allocator/pinned_host_allocator.h"
#include "simulator/allocator/virtual_device.h"
#include "tests/support/data.h"

namespace headroom::allocator {
namespace {

using Json = nlohmann::json;

/// One program on a simulated card and host.
class Experiment : public Observer {
 public:
  Experiment(const Json& program, Bytes total)
      : program_(program),
        device_(std::make_shared<CardMemory>(total, total - program["free_at_start"].get<Bytes>())),
        settings_(parse_allocator_settings(program["settings"].get<std::string>()).value()),
        allocator_(settings_, device_),
        pinned_(settings_, host_, device_) {
    // The recorder's own start.
    allocator_.free(allocator_.allocate(4));
    allocator_.empty_cache();
    allocator_.empty_cache();
    allocator_.reset_peak();
    allocator_.reset_accumulated();
    allocator_.set_observer(this);
  }

  /// The first difference; empty when there is none.
  std::string run() {
    const Json& ops = program_["ops"];
    for (std::size_t i = 0; i < ops.size(); ++i) {
      place_ = {0, 0};
      failed_ = false;
      step(ops[i]);
      const std::string difference = compare(ops[i], program_["rows"][i]);
      if (!difference.empty()) return fmt::format("operation {} {}: {}", i, ops[i].dump(), difference);
    }
    return compare_trace();
  }

  void segment_alloc(Address a, Bytes n, Stream s) override { trace("segment_alloc", a, n, s); }
  void segment_free(Address a, Bytes n, Stream s) override { trace("segment_free", a, n, s); }
  void segment_map(Address a, Bytes n, Stream s) override { trace("segment_map", a, n, s); }
  void segment_unmap(Address a, Bytes n, Stream s) override { trace("segment_unmap", a, n, s); }
  void out_of_memory(const OutOfMemory& facts) override { trace("oom", 0, facts.rounded, facts.stream); }

 private:
  void trace(const char* action, Address address, Bytes bytes, Stream stream) {
    const std::string what = action;
    if (what == "segment_alloc" || what == "segment_map") {
      pieces_.push_back({address, bytes, next_piece_++});
    } else if (what != "oom") {
      std::erase_if(pieces_, [&](const Piece& p) { return p.address == address; });
    }
    trace_.push_back(fmt::format("{} {} {}", action, bytes, stream != 0 ? 1 : 0));
  }

  void step(const Json& op) {
    const std::string what = op[0];
    const auto id = [&] { return op[1].get<int>(); };
    if (what == "a" || what == "try") {
      const BlockId block = what == "a" ? allocator_.allocate(op[2].get<Bytes>(), op[3].get<Stream>())
                                        : allocator_.allocate(op[1].get<Bytes>());
      failed_ = block == kOutOfMemory;
      if (what == "try") {
        if (!failed_) allocator_.free(block);
        return;
      }
      blocks_[id()] = block;
      if (!failed_) place_ = find(allocator_.address(block));
    } else if (what == "f") {
      if (blocks_[id()] != kOutOfMemory) allocator_.free(blocks_[id()]);
    } else if (what == "r") {
      allocator_.record_stream(blocks_[id()], op[2].get<Stream>());
    } else if (what == "s") {
      device_.synchronize();
      device_.hold_events(false);
    } else if (what == "e") {
      allocator_.empty_cache();
    } else if (what == "fraction") {
      allocator_.set_memory_fraction(op[1].get<double>());
    } else if (what == "sleep") {
      device_.hold_events(true);
    } else if (what == "settings") {
      settings_ = change_allocator_settings(settings_, op[1].get<std::string>()).value();
      allocator_.change_settings(settings_);
    } else if (what == "reset_peak") {
      allocator_.reset_peak();
    } else {
      if (!step_pool(what, op)) step_host(what, op);
    }
  }

  bool step_pool(const std::string& what, const Json& op) {
    if (what == "pool") {
      PrivatePoolOptions options{.use_on_oom = op[2].value("use_on_oom", false),
                                 .no_split = op[2].value("no_split", false)};
      if (op[2].value("pluggable", false)) options.device = &pluggable_;
      pools_[op[1].get<int>()] = allocator_.create_pool(options);
      return true;
    }
    const bool known = what == "in" || what == "out" || what == "drop" || what.ends_with("graph");
    if (!known) return false;
    const int key = op[1].get<int>() + (what.ends_with("graph") ? 100 : 0);
    if (what == "in") {
      allocator_.begin_pool(pools_[key]);
    } else if (what == "out" || what == "endgraph") {
      allocator_.end_pool(pools_[key]);
      allocator_.release_pool(pools_[key]);
    } else if (what == "drop") {
      allocator_.release_pool(pools_[key]);
      allocator_.empty_cache(pools_[key]);
    } else if (what == "graph") {
      pools_[key] = allocator_.create_pool();
      allocator_.begin_pool(pools_[key], Stream{3});
    } else {
      allocator_.release_pool(pools_[key]);
    }
    return true;
  }

  void step_host(const std::string& what, const Json& op) {
    if (what == "pin") {
      pinned_blocks_[op[1].get<int>()] = pinned_.allocate(op[2].get<Bytes>());
    } else if (what == "unpin") {
      pinned_.free(pinned_blocks_[op[1].get<int>()]);
    } else if (what == "copy") {
      pinned_.record_stream(pinned_blocks_[op[1].get<int>()], op[2].get<Stream>());
    } else if (what == "hostempty") {
      pinned_.empty_cache();
    }
  }

  std::pair<std::int64_t, Bytes> find(Address address) const {
    for (const Piece& p : pieces_)
      if (p.address <= address && address < p.address + p.bytes) return {p.ordinal, address - p.address};
    return {-2, -2};
  }

  std::string compare(const Json& op, const Json& row) {
    const bool out_of_memory = row.contains("error") && row["error"][0] == "OutOfMemoryError";
    if (failed_ != out_of_memory) return out_of_memory ? "recorded out of memory" : "simulated out of memory";
    if (row.contains("place") && (row["place"][0] != place_.first || row["place"][1] != place_.second)) {
      return fmt::format("simulated segment {} offset {}, recorded {}", place_.first, place_.second,
                         row["place"].dump());
    }
    if (out_of_memory) {
      const std::string difference = compare_message(row["error"][1].get<std::string>());
      if (!difference.empty()) return difference;
    }
    if (!uses_other_memory()) {
      for (const auto& [name, value] : named_statistics(allocator_.statistics())) {
        if (row["stats"].contains(name) && row["stats"][name] != value)
          return fmt::format("simulated {} {}, recorded {}", name, value, row["stats"][name].dump());
      }
    }
    return row.contains("host") && op[0] != "copy" ? compare_host(row["host"]) : "";
  }

  // Copies and matrix products take device memory of their own.
  bool uses_other_memory() const {
    for (const Json& op : program_["ops"])
      if (op[0] == "copy" || op[0] == "matmul") return true;
    return false;
  }

  // Every size in PyTorch's message is one of ours.
  std::string compare_message(const std::string& message) const {
    const OutOfMemory& facts = allocator_.out_of_memory().value();
    std::vector<Bytes> sizes = {facts.tried, facts.device_total, facts.device_free, facts.allocated,
                                facts.unallocated()};
    if (facts.limit) sizes.push_back(*facts.limit);
    for (const Bytes size : sizes) {
      if (message.find(format_bytes(size)) == std::string::npos && size >= kMiB)
        return fmt::format("{} is not in the message: {}", format_bytes(size), message);
    }
    if (facts.limit.has_value() != (message.find(" allowed") != std::string::npos))
      return "limit in message: " + message;
    return {};
  }

  std::string compare_host(const Json& host) const {
    const PinnedStatistics& s = pinned_.statistics();
    const std::map<std::string, std::int64_t> ours = {{"allocated_bytes.current", s.allocated_bytes.current},
                                                      {"allocated_bytes.peak", s.allocated_bytes.peak},
                                                      {"active_bytes.current", s.active_bytes.current},
                                                      {"num_host_alloc", s.num_host_alloc},
                                                      {"num_host_free", s.num_host_free}};
    for (const auto& [name, value] : ours) {
      if (host.contains(name) && host[name] != value)
        return fmt::format("simulated host {} {}, recorded {}", name, value, host[name].dump());
    }
    return {};
  }

  std::string compare_trace() const {
    if (uses_other_memory()) return {};
    for (std::size_t i = 0; i < std::max(trace_.size(), program_["trace"].size()); ++i) {
      const std::string simulated = i < trace_.size() ? trace_[i] : "nothing";
      std::string recorded = "nothing";
      if (i < program_["trace"].size()) {
        const Json& t = program_["trace"][i];
        recorded = fmt::format("{} {} {}", t[0].get<std::string>(), t[1].get<Bytes>(), t[2].get<int>());
      }
      if (simulated != recorded)
        return fmt::format("trace entry {}: simulated {}, recorded {}", i, simulated, recorded);
    }
    return {};
  }

  struct Piece {
    Address address;
    Bytes bytes;
    std::int64_t ordinal;
  };

  const Json& program_;
  VirtualDevice device_;
  VirtualDevice pluggable_{Bytes{1} << 40};
  VirtualHost host_;
  AllocatorSettings settings_;
  CachingAllocator allocator_;
  PinnedHostAllocator pinned_;
  std::map<int, BlockId> blocks_;
  std::map<int, PinnedBlockId> pinned_blocks_;
  std::map<int, PoolId> pools_;
  std::vector<Piece> pieces_;
  std::int64_t next_piece_ = 0;
  std::vector<std::string> trace_;
  std::pair<std::int64_t, Bytes> place_;
  bool failed_ = false;
};

TEST(AllocatorExperiments, RealAllocatorsDidTheSame) {
  const std::filesystem::path path = test::data("allocator/experiments.json");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no experiments recorded: " << path;
  std::ifstream file(path);
  const Json experiments = Json::parse(file);
  for (const Json& program : experiments["programs"]) {
    if (program.contains("skipped")) continue;
    EXPECT_EQ(Experiment(program, experiments["total_memory"].get<Bytes>()).run(), "") << program["name"];
  }
}

}  // namespace
}  // namespace headroom::allocator
