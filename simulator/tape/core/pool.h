#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace headroom::tape {

/// Objects of one type at stable addresses, reused without returning memory: what a running program needs is
/// allocated once. A returned object keeps its state (and the capacity of its vectors); the taker resets it.
template <typename T>
class Pool {
 public:
  T* take() {
    if (free_.empty()) grow();
    T* object = free_.back();
    free_.pop_back();
    return object;
  }
  void give(T* object) { free_.push_back(object); }

 private:
  static constexpr std::size_t kChunk = 256;
  void grow() {
    chunks_.push_back(std::make_unique<T[]>(kChunk));
    free_.reserve(chunks_.size() * kChunk);
    for (std::size_t i = kChunk; i-- > 0;) free_.push_back(&chunks_.back()[i]);
  }
  std::vector<std::unique_ptr<T[]>> chunks_;
  std::vector<T*> free_;
};

}  // namespace headroom::tape
