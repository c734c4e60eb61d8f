#include "simulator/allocator/out_of_memory.h"

#include <fmt/format.h>

namespace headroom::allocator {

std::string OutOfMemory::message() const {
  std::string text =
      fmt::format("out of memory: tried to get {} from the device, which has {} in total and {} free",
                  format_bytes(tried), format_bytes(device_total), format_bytes(device_free));
  if (limit) text += fmt::format("; {} allowed for this process", format_bytes(*limit));
  text += fmt::format("; {} allocated", format_bytes(allocated));
  if (private_pools > 0) text += fmt::format(", {} held by private pools", format_bytes(private_pools));
  text += fmt::format(", {} reserved but unallocated", format_bytes(unallocated()));
  if (!expandable_segments && unallocated() >= tried) {
    text += "; what is unallocated would have sufficed in one piece: try expandable_segments:True";
  }
  return text;
}

}  // namespace headroom::allocator
