"""A stand-in for the few parts of PyTorch that headroom_recorder.py uses, so that its bookkeeping is tested without one.
Memory is taken with cuda.allocate and given back with cuda.free; cuda.fragment makes the allocator reserve more."""


class OutOfMemoryError(RuntimeError):
    pass


class _Properties:
    name = "Stand-in"
    total_memory = 80 << 30


class _Memory:
    entries = None

    def _record_memory_history(self, max_entries):
        self.entries = max_entries

    def _dump_snapshot(self, path):
        with open(path, "w") as file:
            file.write("snapshot")


class _Nccl:
    def version(self):
        return 2, 28, 9


class _Cuda:
    OutOfMemoryError = OutOfMemoryError
    memory, nccl = _Memory(), _Nccl()
    held = peak = calls = slack = 0

    def is_available(self):
        return True

    def fragment(self, size):
        self.slack += size

    def empty_cache(self):
        self.slack = 0

    def allocate(self, size):
        self.held += size
        self.calls += 1
        self.peak = max(self.peak, self.held)

    def free(self, size):
        self.held -= size

    def synchronize(self):
        pass

    def current_device(self):
        return 0

    def get_device_properties(self, _device):
        return _Properties

    def mem_get_info(self):
        return _Properties.total_memory - self.held - self.slack, _Properties.total_memory

    def reset_peak_memory_stats(self):
        self.peak = self.held

    def memory_reserved(self):
        return self.held + self.slack

    def memory_stats(self):
        stats = {"allocation.all.allocated": self.calls, "segment.all.current": 1, "num_alloc_retries": 0,
                 "inactive_split_bytes.all.current": 0}
        for kind, more in (("allocated", 0), ("reserved", self.slack), ("active", 0)):
            stats[f"{kind}_bytes.all.current"] = self.held + more
            stats[f"{kind}_bytes.all.peak"] = self.peak + more
        return stats


class version:
    cuda = "13.0"


cuda = _Cuda()
__version__ = "2.11.0"
