// Programs that ran on PyTorch's real allocators (validator/pytorch/allocator_experiments.py) run here
// through the simulated ones: after every operation all statistics and placements are the same.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "simulator/allocator/caching_allocator.h"
#include "simulator/allocator/pinned_host_allocator.h"
#include "simulator/allocator/virtual_device.h"
#include "simulator/replay/text_file.h"
#include "tests/support/data.h"

namespace headroom::allocator {
namespace {

using Json = nlohmann::json;

/// One program on a simulated card and host. What the simulation cannot know and is not compared: memory of
/// other processes that ran on the card at the same time, and memory that the driver takes for itself when
/// kernels are loaded, graphs captured or pages pinned.
class Experiment : public Observer {
 public:
  Experiment(const Json& program, Bytes total)
      : program_(program),
        device_(std::make_shared<CardMemory>(total, total - program["free_at_start"].get<Bytes>(),
                                             kKeptByDriver)),
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
      const std::string difference = compare(program_["rows"][i]);
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
    trace_.push_back(Json::array({what, bytes, stream != 0 ? 1 : 0, address}));
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
    } else if (what == "e") {
      allocator_.empty_cache();
    } else if (what == "fraction") {
      allocator_.set_memory_fraction(op[1].get<double>());
    } else if (what == "sleep") {
      device_.keep_busy(op[1].get<Stream>());
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
      // A capture begins with two tensors of 8 bytes for the random generator, outside of its pool.
      for (BlockId& id : generator_) id = allocator_.allocate(8, kCaptureStream);
      pools_[key] = allocator_.create_pool();
      allocator_.begin_pool(pools_[key], kCaptureStream);
    } else {
      allocator_.release_pool(pools_[key]);
      for (const BlockId id : generator_) allocator_.free(id);
    }
    return true;
  }

  void step_host(const std::string& what, const Json& op) {
    if (what == "pin") {
      sizes_[op[1].get<int>()] = op[2].get<Bytes>();
      pinned_blocks_[op[1].get<int>()] = pinned_.allocate(op[2].get<Bytes>());
    } else if (what == "unpin") {
      pinned_.free(pinned_blocks_[op[1].get<int>()]);
    } else if (what == "copy") {
      allocator_.allocate(sizes_[op[1].get<int>()]);  // the target, which is kept
      pinned_.record_stream(pinned_blocks_[op[1].get<int>()], op[2].get<Stream>());
    } else if (what == "hostempty") {
      pinned_.empty_cache();
    } else if (what == "matmul") {
      const Bytes bytes = op[1].get<Bytes>() * op[1].get<Bytes>() * 2;
      const BlockId x = allocator_.allocate(bytes), y = allocator_.allocate(bytes);
      allocator_.allocate(32 * kMiB);  // cuBLAS's workspace on Hopper, which stays
      allocator_.free(x);
      allocator_.free(y);
    }
  }

  std::pair<std::int64_t, Bytes> find(Address address) const {
    for (const Piece& p : pieces_)
      if (p.address <= address && address < p.address + p.bytes) return {p.ordinal, address - p.address};
    return {-2, -2};
  }

  std::string compare(const Json& row) {
    const std::string error = row.contains("error") ? row["error"][0].get<std::string>() : "";
    if (failed_ != !error.empty()) return "recorded error: " + error;
    if (failed_ && (allocator_.out_of_memory()->refused_chunk != 0) != (error == "RuntimeError"))
      return "recorded another error: " + error;
    if (row.contains("place") && (row["place"][0] != place_.first || row["place"][1] != place_.second)) {
      return fmt::format("simulated segment {} offset {}, recorded {}", place_.first, place_.second,
                         row["place"].dump());
    }
    if (error == "OutOfMemoryError") {
      const std::string difference = compare_message(row["error"][1].get<std::string>());
      if (!difference.empty()) return difference;
    }
    for (const auto& [name, value] : named_statistics(allocator_.statistics())) {
      if (row["stats"].contains(name) && row["stats"][name] != value)
        return fmt::format("simulated {} {}, recorded {}", name, value, row["stats"][name].dump());
    }
    if (program_["alone"] && row["free"] != device_.free_memory())
      return fmt::format("simulated free {}, recorded {}", device_.free_memory(), row["free"].dump());
    return row.contains("host") ? compare_host(row["host"]) : "";
  }

  // Every size in PyTorch's message is one of ours.
  std::string compare_message(const std::string& message) const {
    const OutOfMemory& facts = allocator_.out_of_memory().value();
    std::vector<Bytes> sizes = {facts.tried, facts.device_total, facts.allocated_with_pools(),
                                facts.private_pools, facts.unallocated()};
    if (program_["alone"]) sizes.push_back(facts.device_free);
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
    const PinnedStatistics s = pinned_.statistics();
    std::map<std::string, std::int64_t> ours = {{"num_host_alloc", s.num_host_alloc},
                                                {"num_host_free", s.num_host_free}};
    const auto add = [&](const std::string& name, const Statistic& statistic) {
      ours[name + ".current"] = statistic.current;
      ours[name + ".peak"] = statistic.peak;
      ours[name + ".allocated"] = statistic.allocated;
      ours[name + ".freed"] = statistic.freed;
    };
    add("allocations", s.allocations);
    add("allocated_bytes", s.allocated_bytes);
    add("active_requests", s.active_requests);
    add("active_bytes", s.active_bytes);
    for (const auto& [name, value] : ours) {
      if (host.at(name) != value)
        return fmt::format("simulated host {} {}, recorded {}", name, value, host[name].dump());
    }
    return {};
  }

  // Work on the card makes the driver take address space of its own; without any, segments lie as recorded.
  bool driver_places_only_segments() const {
    for (const Json& op : program_["ops"])
      if (op[0] == "sleep" || op[0] == "graph" || op[0] == "matmul" || op[0] == "copy") return false;
    return true;
  }

  std::string compare_trace() const {
    const bool addresses = driver_places_only_segments();
    std::optional<Address> base;
    for (std::size_t i = 0; i < std::max(trace_.size(), program_["trace"].size()); ++i) {
      std::string simulated = "nothing", recorded = "nothing";
      Json ours = nullptr, theirs = nullptr;
      if (i < trace_.size()) {
        ours = trace_[i];
        simulated =
            fmt::format("{} {} {}", ours[0].get<std::string>(), ours[1].get<Bytes>(), ours[2].get<int>());
      }
      if (i < program_["trace"].size()) {
        theirs = program_["trace"][i];
        recorded = fmt::format("{} {} {}", theirs[0].get<std::string>(), theirs[1].get<Bytes>(),
                               theirs[2].get<int>());
      }
      if (simulated != recorded)
        return fmt::format("trace entry {}: simulated {}, recorded {}", i, simulated, recorded);
      if (ours[0] == "segment_alloc" && addresses) {
        const Address shift = ours[3].get<Address>() - theirs[3].get<Address>();
        if (base.value_or(shift) != shift)
          return fmt::format("trace entry {}: {} at another address than recorded", i, simulated);
        base = shift;
      }
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
  Json trace_ = Json::array();  ///< as recorded: action, bytes, 0|1, address
  static constexpr Stream kCaptureStream = 3;
  BlockId generator_[2] = {};
  std::map<int, Bytes> sizes_;
  std::pair<std::int64_t, Bytes> place_;
  bool failed_ = false;
};

TEST(AllocatorExperiments, RealAllocatorsDidTheSame) {
  const auto text = replay::read_text_file(test::data("allocator/experiments.json.gz").string());
  ASSERT_TRUE(text.has_value()) << text.error().text();
  const Json experiments = Json::parse(*text);
  EXPECT_EQ(experiments["programs"].size(), 35u);
  for (const Json& program : experiments["programs"]) {
    ASSERT_FALSE(program.contains("skipped")) << program["name"];
    EXPECT_EQ(Experiment(program, experiments["total_memory"].get<Bytes>()).run(), "") << program["name"];
  }
}

}  // namespace
}  // namespace headroom::allocator
