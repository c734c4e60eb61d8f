/* Counts and times cudaMalloc and cudaFree of a process:
 *   cc -O2 -shared -fPIC -o driver_clock.so driver_clock.c -ldl
 *   LD_PRELOAD=./driver_clock.so python3 …          (driver_clock.py reads it)
 * PyTorch calls both through the dynamic linker, so that what is preloaded stands before CUDA's own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <time.h>

/* Of cudaMalloc, then of cudaFree. Callers hold PyTorch's allocator's lock: one thread at a time. */
long headroom_driver_calls[2];
double headroom_driver_seconds[2];

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static int counted(int which, int result, double since) {
  headroom_driver_seconds[which] += now() - since;
  ++headroom_driver_calls[which];
  return result;
}

int cudaMalloc(void** pointer, size_t bytes) {
  static int (*own)(void**, size_t);
  if (own == NULL) own = (int (*)(void**, size_t))dlsym(RTLD_NEXT, "cudaMalloc");
  const double since = now();
  return counted(0, own(pointer, bytes), since);
}

int cudaFree(void* pointer) {
  static int (*own)(void*);
  if (own == NULL) own = (int (*)(void*))dlsym(RTLD_NEXT, "cudaFree");
  const double since = now();
  return counted(1, own(pointer), since);
}
