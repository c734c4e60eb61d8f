#pragma once

#include <map>
#include <optional>
#include <vector>

#include "simulator/allocator/device.h"

namespace headroom::allocator {

/// Where the CUDA driver places native segments, as recorded on an H100 with driver 580: of 136 recorded
/// streams (7,500 segments, 102 of the streams recorded after this was written) all but 2 lie exactly so, and
/// those 2 do from where the driver took a region of 32 MiB for itself.
///
/// Addresses are taken in regions. A segment goes into the newest region that has room, there into the
/// smallest hole that holds it (lowest among equals). Without one, a new region of its size rounded up to 32
/// MiB is placed as high as possible in the space that no region holds, in a gap larger than itself (not
/// merely as large), with the segment at its bottom. A region without segments returns to the space. Newer
/// segments so mostly lie lower, and equal free blocks of different segments are taken in that order.
class AddressSpace {
 public:
  AddressSpace();

  std::optional<Address> place(Bytes bytes);  ///< nothing when no gap is large enough
  void remove(Address address, Bytes bytes);

 private:
  using Holes = std::map<Address, Bytes>;  ///< free intervals by start
  struct Region {
    Address start;
    Bytes size;
    Bytes largest;  ///< of the holes; 0: none
    Holes holes;
  };
  static void add(Holes& holes, Address start, Bytes size);
  static void measure(Region& region);

  std::vector<Region> regions_;  ///< oldest first
  Holes space_;
};

}  // namespace headroom::allocator
