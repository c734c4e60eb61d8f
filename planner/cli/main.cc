#include <malloc.h>

#include "planner/cli/run.h"

int main(int argc, char** argv) {
#ifdef __GLIBC__
  // Programs' buffers of megabytes come and go: memory once had is kept, not mapped anew each time.
  constexpr int kLarge = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kLarge);
  mallopt(M_TRIM_THRESHOLD, kLarge);
#endif
  return headroom::cli::run(argc, argv, HEADROOM_BUILD);
}
