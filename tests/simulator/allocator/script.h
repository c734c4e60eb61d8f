#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "simulator/allocator/caching_allocator.h"
#include "simulator/allocator/virtual_device.h"
#include "tests/simulator/allocator/reference_allocator.h"
#include "tests/simulator/allocator/soundness.h"

namespace headroom::allocator::test {

/// Any bytes as a program: the first choose settings and a card, the others are calls. Checks that the
/// allocator stays sound and, while the program uses neither private pools nor changed settings, equals the
/// reference.
class Script {
 public:
  Script(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}

  /// Empty, or what went wrong.
  std::string run() {
    choose();
    for (int step = 0; left_ > 0 && problem_.empty() && step < 400; ++step) {
      call();
      if (problem_.empty()) problem_ = unsound(*allocator_);
      if (reference_ != nullptr && problem_.empty()) compare();
    }
    if (problem_.empty()) end();
    return problem_;
  }

 private:
  struct Live {
    BlockId id;
    ReferenceAllocator::Block* block;
  };

  unsigned byte() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }

  void choose() {
    static constexpr const char* kSettings[] = {
        "",
        "max_split_size_mb:24",
        "max_split_size_mb:32,garbage_collection_threshold:0.5",
        "garbage_collection_threshold:0.7",
        "roundup_power2_divisions:[1:8,16:4,>:2]",
        "large_segment_size_mb:35,max_non_split_rounding_mb:50",
        "expandable_segments:True",
        "expandable_segments:True,max_split_size_mb:24,garbage_collection_threshold:0.5",
    };
    const AllocatorSettings settings = parse_allocator_settings(kSettings[byte() % 8]).value();
    const unsigned card = byte();
    const Bytes capacity = card % 2 == 0 ? 16 * kGiB : (card / 4 + 16) * 4 * kMiB;
    const auto make = [&] {
      return std::make_unique<VirtualDevice>(std::make_shared<CardMemory>(32 * kGiB, 32 * kGiB - capacity));
    };
    device_ = make();
    reference_device_ = make();
    device_->hold_events(card % 4 >= 2);
    reference_device_->hold_events(card % 4 >= 2);
    allocator_ = std::make_unique<CachingAllocator>(settings, *device_);
    reference_ = std::make_unique<ReferenceAllocator>(settings, *reference_device_);
    if (const unsigned limit = byte(); limit % 2 == 1) {
      allocator_->set_memory_fraction(limit / 4096.0);
      reference_->set_limit(allocator_->limit().value());
    }
  }

  void call() {
    const unsigned what = byte();
    const unsigned variant = what / 16;
    switch (what % 16) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
      case 5:
        return allocate(variant);
      case 6:
      case 7:
      case 8:
      case 9:
        return free();
      case 10:
        return record_stream(static_cast<Stream>(variant % 4));
      case 11:
        return synchronize();
      case 12:
        return empty_cache();
      case 13:
        return open_or_close_pool(variant);
      case 14:
        return change_settings(variant);
      default:
        return reset(variant);
    }
  }

  void allocate(unsigned variant) {
    static constexpr Bytes kUnits[] = {1, 512, 4 * kKiB, 64 * kKiB, kMiB, 3 * kMiB, 10 * kMiB, 37 * kMiB};
    const unsigned factor = byte();
    const Bytes bytes =
        kUnits[variant % 8] * (factor % 32 + 1) + (factor / 32) * 171 - (factor >= 224 ? 1 : 0);
    const auto stream = static_cast<Stream>(variant / 8 + factor % 2);
    const BlockId id = allocator_->allocate(bytes, stream);
    ReferenceAllocator::Block* block = reference_ != nullptr ? reference_->allocate(bytes, stream) : nullptr;
    if (reference_ != nullptr && (id == kOutOfMemory) != (block == nullptr))
      problem_ = "out of memory when the reference is not, or not when it is";
    if (id == kOutOfMemory || !problem_.empty()) return;
    if (block != nullptr && block->address != allocator_->address(id))
      problem_ = "placed elsewhere than by the reference";
    if (allocator_->size(id) < bytes) problem_ = "smaller than requested";
    live_.push_back({id, block});
  }

  void free() {
    if (live_.empty()) return;
    std::swap(live_[byte() % live_.size()], live_.back());
    allocator_->free(live_.back().id);
    if (reference_ != nullptr) reference_->free(live_.back().block);
    live_.pop_back();
  }

  void record_stream(Stream stream) {
    if (live_.empty()) return;
    const Live& one = live_[byte() % live_.size()];
    allocator_->record_stream(one.id, stream);
    if (reference_ != nullptr) reference_->record_stream(one.block, stream);
  }

  void synchronize() {
    device_->synchronize();
    reference_device_->synchronize();
  }

  void empty_cache() {
    synchronize();
    allocator_->empty_cache();
    if (reference_ != nullptr) reference_->empty_cache();
  }

  // From here on without the reference, which knows no pools.
  void open_or_close_pool(unsigned variant) {
    reference_.reset();
    if (!scopes_.empty() && variant % 2 == 0) {
      allocator_->end_pool(scopes_.back());
      scopes_.pop_back();
      return;
    }
    if (pools_.empty() || variant % 4 == 1) {
      pools_.push_back(
          allocator_->create_pool({.use_on_oom = variant / 4 % 2 == 1, .no_split = variant / 8 == 1}));
    } else if (scopes_.empty() && variant % 4 == 3 && pools_.size() > 1) {
      allocator_->release_pool(pools_.front());
      pools_.erase(pools_.begin());
      return;
    }
    scopes_.push_back(pools_.back());
    allocator_->begin_pool(pools_.back(), variant / 8 == 1 ? std::optional<Stream>(1) : std::nullopt);
  }

  void change_settings(unsigned variant) {
    reference_.reset();
    AllocatorSettings settings = allocator_->settings();
    if (variant % 2 == 0) settings.expandable_segments = !settings.expandable_segments;
    if (variant % 2 == 1) settings.max_split_size = variant % 4 == 1 ? kUnlimited : 64 * kMiB;
    allocator_->change_settings(settings);
  }

  void reset(unsigned variant) {
    if (variant % 2 == 0) {
      allocator_->reset_peak();
    } else {
      allocator_->reset_accumulated();
    }
  }

  void compare() {
    const auto equal = [&](const char* name, Bytes value) {
      if (value != reference_->current(name) && problem_.empty())
        problem_ = std::string(name) + " differs from the reference's";
    };
    equal("allocated_bytes", allocator_->allocated());
    equal("reserved_bytes", allocator_->reserved());
    equal("active_bytes", allocator_->active());
    equal("inactive_split_bytes", allocator_->inactive_split());
    if (device_->card().used() != reference_device_->card().used())
      problem_ = "holds other device memory than the reference";
  }

  // With everything freed and every pool released, the device has everything back.
  void end() {
    for (const Live& one : live_) allocator_->free(one.id);
    for (; !scopes_.empty(); scopes_.pop_back()) allocator_->end_pool(scopes_.back());
    synchronize();
    allocator_->empty_cache();
    problem_ = unsound(*allocator_);
    if (problem_.empty() && allocator_->allocated() != 0) problem_ = "bytes are allocated after all frees";
    if (problem_.empty() && pools_.empty() && allocator_->reserved() != 0)
      problem_ = "bytes are reserved after all frees";
  }

  const std::uint8_t* data_;
  std::size_t left_;
  std::string problem_;
  std::unique_ptr<VirtualDevice> device_, reference_device_;
  std::unique_ptr<CachingAllocator> allocator_;
  std::unique_ptr<ReferenceAllocator> reference_;
  std::vector<Live> live_;
  std::vector<PoolId> pools_, scopes_;
};

}  // namespace headroom::allocator::test
