#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace headroom::replay {

/// A growing array that never moves its elements: a doubling vector of a gigabyte would need two more while
/// it grows. T is trivially copyable. Access is one shift, one mask and two loads.
template <typename T>
class ChunkedVector {
 public:
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::size_t memory() const { return chunks_.size() * kChunk * sizeof(T); }  ///< bytes held

  T& operator[](std::size_t i) { return chunks_[i >> kShift][i & kMask]; }
  const T& operator[](std::size_t i) const { return chunks_[i >> kShift][i & kMask]; }

  void push_back(const T& value) {
    if ((size_ & kMask) == 0) [[unlikely]] {
      if ((size_ >> kShift) == chunks_.size()) chunks_.push_back(std::make_unique_for_overwrite<T[]>(kChunk));
    }
    chunks_[size_ >> kShift][size_ & kMask] = value;
    ++size_;
  }

  void clear() {
    chunks_.clear();
    size_ = 0;
  }

 private:
  static constexpr std::size_t kShift = 13, kChunk = std::size_t{1} << kShift, kMask = kChunk - 1;

  std::vector<std::unique_ptr<T[]>> chunks_;
  std::size_t size_ = 0;
};

}  // namespace headroom::replay
