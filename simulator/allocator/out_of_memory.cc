#include "simulator/allocator/out_of_memory.h"

#include <fmt/format.h>

namespace headroom::allocator {

std::string OutOfMemory::message() const {
  if (refused_chunk != 0) {
    return fmt::format(
        "CUDA driver error: expandable segments cannot be mapped in chunks of {}, which are not whole pages "
        "of "
        "2 MiB; give large_segment_size_mb an even number",
        format_bytes(refused_chunk));
  }
  std::string text = fmt::format(
      "out of memory: tried to get {} from GPU {}, which has {} in total and {} free; this process holds {}",
      format_bytes(tried), device, format_bytes(device_total), format_bytes(device_free),
      format_bytes(process));
  if (limit) text += fmt::format("; {} allowed for this process", format_bytes(*limit));
  text += fmt::format("; {} allocated", format_bytes(allocated_with_pools()));
  if (private_pools > 0) text += fmt::format(", {} of it in private pools", format_bytes(private_pools));
  text += fmt::format(", {} reserved but unallocated", format_bytes(unallocated()));
  if (!expandable_segments && unallocated() >= tried) {
    text += "; what is unallocated would have sufficed in one piece: try expandable_segments:True";
  }
  return text;
}

}  // namespace headroom::allocator
