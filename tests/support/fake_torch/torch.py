"""A stand-in for the few parts of PyTorch that headroom_recorder.py uses, so that its bookkeeping is tested without one."""


class OutOfMemoryError(RuntimeError):
    pass


class _Properties:
    name = "Stand-in"
    total_memory = 80 << 30


class _Cuda:
    OutOfMemoryError = OutOfMemoryError
    held = peak = calls = 0

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
        return _Properties.total_memory - self.held, _Properties.total_memory

    def reset_peak_memory_stats(self):
        self.peak = self.held

    def memory_reserved(self):
        return self.held

    def memory_stats(self):
        stats = {"allocation.all.allocated": self.calls, "segment.all.current": 1, "num_alloc_retries": 0,
                 "inactive_split_bytes.all.current": 0}
        for kind in ("allocated", "reserved", "active"):
            stats[f"{kind}_bytes.all.current"] = self.held
            stats[f"{kind}_bytes.all.peak"] = self.peak
        return stats


class version:
    cuda = "13.0"


cuda = _Cuda()
__version__ = "2.11.0"
