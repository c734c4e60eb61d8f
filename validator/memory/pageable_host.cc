#include "validator/memory/pageable_host.h"

#include <sys/mman.h>

#include <algorithm>

namespace headroom::gpu {
namespace {

std::size_t length(Bytes bytes) {
  return static_cast<std::size_t>(std::max<Bytes>(bytes, 1));
}

}  // namespace

PageableHost::~PageableHost() {
  for (const auto& [bytes, at] : unused_) ::munmap(at, length(bytes));
}

char* PageableHost::allocate(Bytes bytes) {
  if (const auto known = unused_.find(bytes); known != unused_.end()) {
    char* at = known->second;
    unused_.erase(known);
    return at;
  }
  void* at = ::mmap(nullptr, length(bytes), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  static_cast<void>(::madvise(at, length(bytes), MADV_HUGEPAGE));  // fewer page faults, where it is allowed
  return static_cast<char*>(at);
}

void PageableHost::free(char* at, Bytes bytes) {
  if (at != nullptr) unused_.emplace(bytes, at);
}

}  // namespace headroom::gpu
