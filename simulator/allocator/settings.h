#pragma once

#include <array>
#include <limits>
#include <optional>
#include <string_view>

#include "models/base/bytes.h"
#include "models/base/result.h"

namespace headroom::allocator {

/// Fixed sizes of PyTorch's CUDA caching allocator.
inline constexpr Bytes kMinBlock = 512;   ///< smallest block and rounding quantum
inline constexpr Bytes kSmallMax = kMiB;  ///< a rounded size up to this (inclusive) uses the small pool
inline constexpr Bytes kSmallSegment = 2 * kMiB;  ///< every segment of the small pool
inline constexpr Bytes kMinLarge = 10 * kMiB;     ///< from here (inclusive) a segment is sized to its request
inline constexpr Bytes kRoundLarge = 2 * kMiB;    ///< such a segment is a multiple of this
inline constexpr Bytes kMaxRequest = Bytes{1} << 60;  ///< requests from here on fail at once, uncounted
inline constexpr Bytes kUnlimited = std::numeric_limits<Bytes>::max();

/// What PYTORCH_CUDA_ALLOC_CONF (or PYTORCH_ALLOC_CONF) can say, with PyTorch 2.11's defaults.
struct AllocatorSettings {
  enum class Backend { native, cuda_malloc_async };

  bool expandable_segments = false;
  Bytes max_split_size = kUnlimited;         ///< blocks of at least this size are never split
  Bytes large_segment_size = 20 * kMiB;      ///< segment for requests in (1 MiB, 10 MiB)
  Bytes max_non_split_rounding = 20 * kMiB;  ///< how much larger than its request an unsplit block may be
  /// Divisions of each power of two for rounding; interval i holds sizes in [2^(20+i), 2^(21+i)), the first
  /// also all smaller and the last all larger ones. 0 and 1: plain rounding to 512.
  std::array<int, 16> roundup_power2_divisions{};
  double garbage_collection_threshold = 0;  ///< fraction of the limit; 0: off
  std::optional<double> per_process_memory_fraction;
  bool graph_capture_record_stream_reuse = false;  ///< read, no effect on the simulation
  Backend backend = Backend::native;
  bool release_lock_on_cudamalloc = false;  ///< concurrency only

  // Pinned host memory.
  bool pinned_use_cuda_host_register = false;  ///< how pages are pinned; sizes do not change
  int pinned_num_register_threads = 1;
  bool pinned_use_background_threads = false;
  Bytes pinned_reserve_segment_size = 0;          ///< one reserve taken at the first allocation; 0: none
  Bytes pinned_max_round_threshold = kUnlimited;  ///< larger requests are not rounded (after 2.11)
  Bytes pinned_max_cached_size = kUnlimited;      ///< larger blocks are not kept (after 2.11)

  friend bool operator==(const AllocatorSettings&, const AllocatorSettings&) = default;
};

/// Reads PyTorch's own string: `key:value,key:[a:b,c:d]`, blanks ignored, booleans exactly True or False.
/// An unknown key (the nearest known one is named), a value out of its range or malformed syntax is an error
/// whose `key` is the option. A key given twice: the last one wins, as in PyTorch.
Result<AllocatorSettings> parse_allocator_settings(std::string_view text);

/// The same for settings given again at run time: as PyTorch does, what `text` leaves out returns to its
/// default, but expandable_segments, large_segment_size_mb, the memory fraction and the pinned options stay
/// as they were.
Result<AllocatorSettings> change_allocator_settings(const AllocatorSettings& previous, std::string_view text);

/// The size of the block that a request of `bytes` >= 1 needs.
Bytes round_request(const AllocatorSettings& settings, Bytes bytes);

/// The size of a new native segment for a rounded size.
Bytes segment_size(const AllocatorSettings& settings, Bytes rounded);

/// The size of the pinned host block that a request of `bytes` >= 1 needs.
Bytes round_pinned(const AllocatorSettings& settings, Bytes bytes);

}  // namespace headroom::allocator
