#pragma once

#include <map>

#include "models/base/bytes.h"

namespace headroom::gpu {

/// Pageable host memory that is kept for the next request of the same size. The first write to host memory
/// costs more than the transfer that causes it (the system finds and clears each page), and a job that
/// offloads takes and gives the same sizes again in every phase. Untouched memory costs nothing; what was
/// given back stays resident.
class PageableHost {
 public:
  PageableHost() = default;
  PageableHost(const PageableHost&) = delete;
  PageableHost& operator=(const PageableHost&) = delete;
  ~PageableHost();

  /// At least `bytes`, aligned to a page; null where the system has no address space left.
  char* allocate(Bytes bytes);
  /// `at` came from `allocate(bytes)`.
  void free(char* at, Bytes bytes);

 private:
  std::multimap<Bytes, char*> unused_;
};

}  // namespace headroom::gpu
