"""Runs small programs on PyTorch's real allocators and writes what they did as one JSON file.

    python3 allocator_experiments.py OUT.json        (one CUDA GPU with nothing else on it; under two minutes)

The programs settle what event recordings cannot: the device itself running out of memory, private pools and graph
capture, streams that are still busy, pinned host memory, settings changed at run time. tests/simulator/allocator/
experiments_test.cc runs the same programs through the simulated allocators and compares (with a gzip of the output as
tests/data/allocator/experiments.json.gz).

Output: {torch, cuda, driver, device, total_memory, programs: [program]}. A program:
  name, settings    PYTORCH_CUDA_ALLOC_CONF
  free_at_start     bytes free on the card before its first operation (after the ballast, if any)
  alone             no other program ran on the card at the same time: `free` is this program's own doing
  ops               what it did, in order
  rows              one an op: {stats: {name: value}, free: bytes} and, for "a": place [segment ordinal, offset];
                    for host operations: host {name: value}; `error` with the exception's type and message
  trace             [action, bytes, 0|1 (default or other stream), address above the lowest]
  segments          at the end: {address, size, small, expandable, blocks: [[bytes, requested, state]]}
  skipped           why it could not run, instead of all after `name`
Operations: ["a",id,bytes,stream] ["f",id] ["r",id,stream] ["s"] (synchronize) ["e"] (empty_cache)
  ["fraction",f] ["sleep",stream] (keeps the stream busy until "s") ["settings",text] ["reset_peak"]
  ["pool",p,options] ["in",p] ["out",p] ["drop",p]   ["graph",g] ["endgraph",g] ["dropgraph",g]
  ["pin",id,bytes] ["unpin",id] ["copy",id,stream] (an asynchronous copy from the pinned tensor) ["hostempty"]
  ["matmul",n]
"""

import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
STATS = [
    "allocation.all.current", "allocated_bytes.all.current", "active.all.current", "active_bytes.all.current",
    "requested_bytes.all.current", "segment.all.current", "reserved_bytes.all.current",
    "inactive_split.all.current", "inactive_split_bytes.all.current", "allocated_bytes.all.peak",
    "active_bytes.all.peak", "reserved_bytes.all.peak", "inactive_split.all.peak", "inactive_split_bytes.all.peak",
    "oversize_allocations.current", "oversize_segments.current", "num_alloc_retries", "num_ooms",
    "num_sync_all_streams", "num_device_alloc", "num_device_free",
]


class Program:
    """Collects operations; tensors are numbered in order of their making."""

    def __init__(self, name, settings="", free=None, alone=False):
        self.name, self.settings, self.free_bytes = name, settings, free
        self.alone = alone or free is not None
        self.ops, self.live, self.next, self.pinned = [], [], 0, []

    def m(self, size, stream=0):
        self.ops.append(["a", self.next, size, stream])
        self.live.append(self.next)
        self.next += 1
        return self.next - 1

    def f(self, *ids):
        for i in ids:
            self.ops.append(["f", i])
            self.live.remove(i)

    def pin(self, size):
        self.ops.append(["pin", self.next, size])
        self.pinned.append(self.next)
        self.next += 1
        return self.next - 1

    def op(self, *words):
        self.ops.append(list(words))

    def clean(self):
        """Everything freed and the cache emptied: the next example starts anew."""
        self.f(*list(self.live))
        self.op("s")
        self.op("e")
        self.op("reset_peak")


def examples_native(p):
    p.m(1)
    p.clean()
    a, b, c = p.m(512), p.m(1000), p.m(512)
    p.f(a), p.f(b), p.f(c)
    p.clean()
    p.m(MIB), p.m(MIB), p.m(MIB + 1)
    p.clean()
    p.m(10485248), p.m(10485760), p.m(10485761)
    p.clean()
    p.f(p.m(2 * MIB))
    p.f(p.m(19922944))
    p.m(19922432)
    p.clean()
    p.f(p.m(30 * MIB), p.m(12 * MIB), p.m(14 * MIB))
    p.m(11 * MIB), p.m(13 * MIB), p.m(13 * MIB)
    p.clean()
    ids = [p.m(4 * MIB) for _ in range(4)]
    p.f(ids[0], ids[2])
    p.m(4 * MIB)
    p.clean()
    p.f(p.m(3 * MIB))
    p.m(3 * MIB, 1)
    p.clean()
    p.m(5 * MIB)
    p.f(p.m(40 * MIB))
    p.op("e")
    p.clean()
    p.m(716800), p.m(716800), p.m(716800)
    p.clean()


def ties(p):
    """Which of two equal segments wins, and where new segments go between old ones."""
    for size in (20 * MIB, 40 * MIB, 2 * MIB, 96 * MIB):
        a, b = p.m(size), p.m(size)
        p.f(b, a)
        p.f(p.m(size))
        p.clean()
        a, b, c = p.m(size), p.m(size), p.m(size)
        p.f(a, c)
        p.f(p.m(size), p.m(size))
        p.clean()
    ids = [p.m(20 * MIB) for _ in range(10)]
    p.f(*ids[::2])
    p.op("e")
    more = [p.m(20 * MIB) for _ in range(5)]
    p.f(*more[::2])
    p.op("e")
    for size in (22, 30, 60, 64, 20, 100, 128, 10):
        p.m(size * MIB)
    p.f(*p.live[::3])
    p.op("e")
    for size in (64, 62, 24, 20, 96, 32, 2000, 12):
        p.m(size * MIB)
    p.clean()


def examples_expandable(p):
    a = p.m(100)
    q = p.m(30 * MIB)
    r = p.m(15 * MIB)
    p.f(q)
    p.op("e")
    t, u = p.m(25 * MIB), p.m(10 * MIB)
    p.f(a, r, t, u)
    p.op("e")
    hole = p.m(30 * MIB)
    p.m(18 * MIB)
    p.f(hole)
    p.m(11 * MIB)
    p.clean()
    p.m(3 * MIB, 1), p.m(3 * MIB, 2), p.m(3 * MIB)
    p.clean()


def max_split(p):
    p.f(p.m(100 * MIB))
    p.m(50 * MIB), p.m(85 * MIB), p.m(30 * MIB)
    p.clean()
    p.f(p.m(100 * MIB))
    p.f(p.m(81 * MIB))
    p.m(80 * MIB)
    p.clean()


def non_split_rounding(p):
    p.f(p.m(100 * MIB))
    p.f(p.m(71 * MIB))
    p.m(70 * MIB)
    p.clean()


def garbage_collection(order):
    def build(p):
        p.op("limit", 100 * MIB)
        a, b = p.m(20 * MIB), p.m(24 * MIB)
        if order:
            p.f(a)
            p.m(30 * MIB)
            p.f(b)
        else:
            p.m(30 * MIB)
            p.f(a, b)
        p.m(26 * MIB)
        p.clean()
    return build


def limit_reached(p):
    """A limit may be reached exactly; one byte less is too little. 1 removes it."""
    for limit in (60 * MIB, 60 * MIB - 1):
        p.op("limit", limit)
        p.m(60 * MIB)
        p.clean()
    p.op("limit", 100 * MIB)
    p.f(p.m(60 * MIB))
    p.m(30 * MIB)
    p.m(64 * MIB)
    p.op("fraction", 1.0)
    p.m(64 * MIB)
    p.clean()


def limit_overshoot(p):
    for limit in (76, 75):
        p.op("limit", limit * MIB)
        p.m(45 * MIB), p.m(16 * MIB)
        p.clean()


def device_retry(p):
    p.f(p.m(60 * MIB))
    p.m(70 * MIB)
    p.clean()
    p.f(p.m(60 * MIB))
    p.m(30 * MIB)
    p.m(64 * MIB)
    p.op("fraction", 0.5)
    p.m(66 * MIB)
    p.op("fraction", 1.0)
    p.m(66 * MIB)
    p.clean()


def device_release_available(request):
    def build(p):
        a, b = p.m(100 * MIB), p.m(60 * MIB)
        p.f(a, b)
        p.m(request * MIB)
        p.clean()
    return build


def device_expandable_retry(p):
    a = p.m(50 * MIB)
    p.m(4 * MIB)
    p.f(a)
    p.m(55 * MIB)
    p.clean()


def device_margin(p):
    """The largest request that still works, from too much downwards; then small ones until nothing is left."""
    for size in range(140, 80, -2):
        p.op("try", size * MIB)
    for _ in range(70):
        p.m(2 * MIB)
    p.clean()


def busy_streams(p):
    a = p.m(3 * MIB)
    p.op("sleep", 1)
    p.op("r", a, 1)
    p.f(a)
    p.m(3 * MIB)
    p.op("s")
    p.m(3 * MIB)
    p.clean()
    a, b = p.m(5 * MIB), p.m(5 * MIB)
    p.op("sleep", 1)
    p.op("r", a, 1), p.op("r", a, 2), p.op("r", b, 2)
    p.f(a, b)
    p.m(5 * MIB)
    p.op("s")
    p.m(5 * MIB)
    p.clean()
    a = p.m(40 * MIB)
    p.op("sleep", 1)
    p.op("r", a, 1)
    p.f(a)
    p.op("e")
    p.clean()


def private_pool(p):
    p.op("pool", 0, {})
    p.op("in", 0)
    a = p.m(5 * MIB)
    p.op("out", 0)
    p.f(a)
    p.m(5 * MIB)
    p.op("e")
    p.op("drop", 0)
    p.op("e")
    p.clean()
    # Nested pools: the newest serves; frees go home whatever is open.
    p.op("pool", 1, {}), p.op("pool", 2, {})
    p.op("in", 1)
    a = p.m(3 * MIB)
    p.op("in", 2)
    b = p.m(3 * MIB)
    p.f(a)
    c = p.m(3 * MIB)
    p.op("e")
    p.op("out", 2)
    d = p.m(3 * MIB)
    p.op("out", 1)
    p.f(b, c, d)
    p.op("drop", 1)
    p.op("drop", 2)
    p.clean()


def pool_without_release(p):
    """Cached memory of the default pool is not given back for a request inside a pool (up to 2.11)."""
    p.f(p.m(60 * MIB))
    p.op("pool", 0, {})
    p.op("in", 0)
    p.m(70 * MIB)
    p.op("out", 0)
    p.m(70 * MIB)
    p.clean()
    p.op("drop", 0)
    p.clean()


def pool_on_oom(p):
    p.op("pool", 0, {"use_on_oom": True})
    p.op("in", 0)
    a = p.m(60 * MIB)
    p.op("out", 0)
    p.f(a)
    p.m(50 * MIB)
    p.m(70 * MIB)
    p.clean()
    p.op("drop", 0)
    p.clean()


def pool_no_split(p):
    p.op("pool", 0, {"no_split": True})
    p.op("in", 0)
    p.m(5 * MIB), p.m(100)
    p.op("out", 0)
    p.clean()
    p.op("drop", 0)
    p.clean()


def pluggable_pool(p):
    p.op("pool", 0, {"pluggable": True})
    p.op("in", 0)
    a, b = p.m(30 * MIB), p.m(5 * MIB)
    p.op("out", 0)
    p.f(a, b)
    p.m(5 * MIB)
    p.clean()
    p.op("drop", 0)
    p.clean()


def graph_capture(p):
    held = p.m(3 * MIB)
    p.op("r", held, 1)
    p.op("graph", 0)
    a = p.m(5 * MIB, 3)
    b = p.m(300 * KIB, 3)
    p.f(a)
    p.m(4 * MIB, 3)
    p.f(held)
    p.op("endgraph", 0)
    p.m(3 * MIB)
    p.f(b)
    p.op("e")
    p.op("dropgraph", 0)
    p.clean()


def rounding_list(p):
    for size in (300, 600, 1025, 2049, 5000):
        p.f(p.m(size * MIB + 1))
        p.op("e")
    p.clean()


def large_segment(p):
    p.m(3 * MIB), p.m(9 * MIB), p.m(5 * MIB), p.m(12 * MIB)
    p.clean()


def settings_at_run_time(p):
    a = p.m(15 * MIB)
    p.op("settings", "expandable_segments:True")
    b = p.m(15 * MIB)
    p.f(a)
    p.m(4 * MIB)
    p.op("settings", "expandable_segments:False")
    p.f(b)
    p.m(14 * MIB), p.m(3 * MIB)
    p.op("settings", "max_split_size_mb:40")
    p.f(p.m(100 * MIB))
    p.m(50 * MIB)
    p.clean()


def device_use(p):
    """What a segment really takes from the card."""
    for size in (20 * MIB, 1, 2 * MIB, 11 * MIB, 33 * MIB + 1, 3 * GIB + 5):
        p.m(size)
    p.clean()


def pinned(p):
    a, b = p.pin(96 * MIB), p.pin(160 * MIB)
    p.op("unpin", a), p.op("unpin", b)
    c = p.pin(80 * MIB)
    d = p.pin(96 * MIB)
    p.op("unpin", c), p.op("unpin", d)
    e = p.pin(65 * MIB)
    p.op("e")
    p.op("unpin", e)
    p.op("hostempty")
    f = p.pin(1), p.pin(4096), p.pin(4097), p.pin(3 * MIB)
    p.op("sleep", 1)
    p.op("copy", f[3], 1)
    p.op("unpin", f[3])
    g = p.pin(3 * MIB)
    p.op("s")
    h = p.pin(3 * MIB)
    for i in (f[0], f[1], f[2], g, h):
        p.op("unpin", i)
    p.op("hostempty")


def matmul(p):
    p.op("matmul", 1024)
    p.clean()


BUILDERS = [
    (Program("examples_native"), examples_native),
    (Program("ties"), ties),
    (Program("examples_expandable", "expandable_segments:True"), examples_expandable),
    (Program("max_split", "max_split_size_mb:40"), max_split),
    (Program("non_split_rounding", "max_split_size_mb:40,max_non_split_rounding_mb:30"), non_split_rounding),
    (Program("garbage_collection_50", "garbage_collection_threshold:0.5"), garbage_collection(False)),
    (Program("garbage_collection_55", "garbage_collection_threshold:0.55"), garbage_collection(True)),
    (Program("limit_reached"), limit_reached),
    (Program("limit_overshoot", "expandable_segments:True"), limit_overshoot),
    (Program("busy_streams"), busy_streams),
    (Program("busy_streams_expandable", "expandable_segments:True"), busy_streams),
    (Program("private_pool"), private_pool),
    (Program("private_pool_expandable", "expandable_segments:True"), private_pool),
    (Program("pool_no_split"), pool_no_split),
    (Program("pluggable_pool", "expandable_segments:True"), pluggable_pool),
    (Program("graph_capture"), graph_capture),
    (Program("rounding_list", "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]"), rounding_list),
    (Program("large_segment_32", "large_segment_size_mb:32"), large_segment),
    (Program("large_segment_13", "large_segment_size_mb:13"), large_segment),
    (Program("large_segment_13_expandable", "large_segment_size_mb:13,expandable_segments:True"), large_segment),
    (Program("settings_at_run_time"), settings_at_run_time),
    (Program("pinned"), pinned),
    (Program("pinned_register", "pinned_use_cuda_host_register:True,pinned_num_register_threads:4"), pinned),
    (Program("matmul"), matmul),
    (Program("device_use", alone=True), device_use),
    (Program("device_use_expandable", "expandable_segments:True", alone=True), device_use),
    (Program("device_retry", free=100 * MIB), device_retry),
    (Program("device_release_76", "max_split_size_mb:40", free=200 * MIB), device_release_available(76)),
    (Program("device_release_110", "max_split_size_mb:40", free=200 * MIB), device_release_available(110)),
    (Program("device_expandable_80", "expandable_segments:True", free=80 * MIB), device_expandable_retry),
    (Program("device_expandable_70", "expandable_segments:True", free=70 * MIB), device_expandable_retry),
    (Program("device_margin", free=128 * MIB), device_margin),
    (Program("device_margin_expandable", "expandable_segments:True", free=128 * MIB), device_margin),
    (Program("pool_without_release", free=100 * MIB), pool_without_release),
    (Program("pool_on_oom", free=100 * MIB), pool_on_oom),
]
for program, build in BUILDERS:
    build(program)
PROGRAMS = {program.name: program for program, _ in BUILDERS}

PLUGGABLE = """
#include <stddef.h>
typedef int (*alloc_fn)(void**, size_t); typedef int (*free_fn)(void*);
static alloc_fn take; static free_fn give;
void set_functions(void* a, void* f) { take = (alloc_fn)a; give = (free_fn)f; }
void* pool_alloc(long size, int device, void* stream) { void* p = 0; return take(&p, (size_t)size) == 0 ? p : 0; }
void pool_free(void* p, long size, int device, void* stream) { give(p); }
"""


def cuda_runtime():
    """The CUDA runtime that PyTorch has loaded."""
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if re.search(r"libcudart\.so", line)}
    return ctypes.CDLL(sorted(paths)[0])


class Runner:
    """Runs one program in this process."""

    def __init__(self, program):
        import torch
        self.torch, self.program = torch, program
        torch.cuda.init()
        torch.empty(1, device="cuda")
        torch.cuda.empty_cache()
        self.total = torch.cuda.get_device_properties(0).total_memory
        self.streams = [torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
        self.tensors, self.pools, self.scopes, self.graphs, self.host = {}, {}, {}, {}, {}
        self.sources, self.dead = [], set()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        if any(op[0] == "sleep" for op in program.ops):
            for stream in self.streams:  # compiles and loads the kernel
                with torch.cuda.stream(stream):
                    torch.cuda._sleep(1000)
            torch.cuda.synchronize()
        if program.free_bytes is not None:
            self.leave_free(program.free_bytes)
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.reset_accumulated_memory_stats()
        torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=1_000_000)

    def leave_free(self, want):
        """Takes device memory outside of PyTorch until `want` bytes are left."""
        runtime = cuda_runtime()
        for unit in (GIB, 16 * MIB, 2 * MIB):
            while True:
                excess = self.torch.cuda.mem_get_info()[0] - want
                if excess < unit:
                    break
                pointer = ctypes.c_void_p()
                if runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(excess // unit * unit)) != 0:
                    break

    def stats(self):
        stats = self.torch.cuda.memory_stats()
        return {name: stats[name] for name in STATS if name in stats}

    def host_stats(self):
        return {k: v for k, v in self.torch.cuda.host_memory_stats().items()
                if isinstance(v, int) and "time" not in k}

    def allocate(self, size, stream):
        with self.torch.cuda.stream(stream):
            return self.torch.empty(size, dtype=self.torch.uint8, device="cuda")

    def step(self, op):
        torch, what = self.torch, op[0]
        if what == "a":
            stream = self.capture_stream if op[3] == 3 else self.streams[op[3]]
            self.dead.add(op[1])
            self.tensors[op[1]] = self.allocate(op[2], stream)
            self.dead.discard(op[1])
        elif what == "try":
            self.allocate(op[1], self.streams[0])
        elif what == "f":
            if op[1] not in self.dead:
                del self.tensors[op[1]]
        elif what == "r":
            self.tensors[op[1]].record_stream(self.streams[op[2]])
        elif what == "s":
            torch.cuda.synchronize()
        elif what == "e":
            torch.cuda.empty_cache()
        elif what == "fraction":
            torch.cuda.set_per_process_memory_fraction(op[1])
        elif what == "sleep":
            with torch.cuda.stream(self.streams[op[1]]):
                torch.cuda._sleep(2_000_000_000)
        elif what == "settings":
            torch.cuda.memory._set_allocator_settings(op[1])
        elif what == "reset_peak":
            torch.cuda.reset_peak_memory_stats()
        elif what == "pool":
            self.make_pool(op[1], op[2])
        elif what == "in":
            self.scopes[op[1]] = torch.cuda.use_mem_pool(self.pools[op[1]])
            self.scopes[op[1]].__enter__()
        elif what == "out":
            self.scopes.pop(op[1]).__exit__(None, None, None)
        elif what == "drop":
            del self.pools[op[1]]
        elif what == "graph":
            self.graphs[op[1]] = torch.cuda.CUDAGraph()
            self.capture_stream = torch.cuda.Stream()
            torch.cuda.synchronize()
            self.capture = torch.cuda.stream(self.capture_stream)
            self.capture.__enter__()
            self.graphs[op[1]].capture_begin()
        elif what == "endgraph":
            self.graphs[op[1]].capture_end()
            self.capture.__exit__(None, None, None)
        elif what == "dropgraph":
            self.graphs.pop(op[1]).reset()
        elif what == "pin":
            self.host[op[1]] = torch.empty(op[2], dtype=torch.uint8, pin_memory=True)
        elif what == "unpin":
            del self.host[op[1]]
        elif what == "copy":
            target = torch.empty_like(self.host[op[1]], device="cuda")
            with torch.cuda.stream(self.streams[op[2]]):
                target.copy_(self.host[op[1]], non_blocking=True)
            self.sources.append(target)
        elif what == "hostempty":
            torch._C._host_emptyCache()
        elif what == "matmul":
            x = torch.zeros(op[1], op[1], dtype=torch.bfloat16, device="cuda")
            y = x @ x
            del x, y
        else:
            raise ValueError(what)

    def make_pool(self, index, options):
        torch = self.torch
        options = dict(options)
        allocator = None
        if options.pop("pluggable", False):
            folder = tempfile.mkdtemp()
            source, library = os.path.join(folder, "pool.c"), os.path.join(folder, "pool.so")
            with open(source, "w") as file:
                file.write(PLUGGABLE)
            subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True, capture_output=True)
            runtime = cuda_runtime()
            ctypes.CDLL(library).set_functions(ctypes.cast(runtime.cudaMalloc, ctypes.c_void_p),
                                               ctypes.cast(runtime.cudaFree, ctypes.c_void_p))
            self.pluggable = torch.cuda.memory.CUDAPluggableAllocator(library, "pool_alloc", "pool_free")
            allocator = self.pluggable._allocator
        self.pools[index] = torch.cuda.MemPool(allocator, **options)

    def run(self):
        torch = self.torch
        ops = [["fraction", (op[1] + 0.5) / self.total] if op[0] == "limit" else op for op in self.program.ops]
        free_at_start = torch.cuda.mem_get_info()[0]
        rows, pointers = [], []
        for op in ops:
            row = {}
            try:
                self.step(op)
            except Exception as error:  # what PyTorch raises is a result here
                row["error"] = [type(error).__name__, str(error)]
            pointers.append(self.tensors[op[1]].data_ptr() if op[0] == "a" and op[1] in self.tensors else None)
            row["stats"] = self.stats()
            if "graph" not in [o[0] for o in ops]:
                row["free"] = torch.cuda.mem_get_info()[0]
            if op[0] in ("pin", "unpin", "copy", "hostempty", "s", "e") and any(o[0] == "pin" for o in ops):
                row["host"] = self.host_stats()
            rows.append(row)
        snapshot = torch.cuda.memory._snapshot()
        self.name_places(snapshot["device_traces"][0], rows, ops, pointers)
        base = min((t["addr"] for t in snapshot["device_traces"][0] if t["action"].startswith("segment")), default=0)
        trace = [[t["action"], t["size"], int(t["stream"] != 0), t.get("addr", base) - base]
                 for t in snapshot["device_traces"][0] if t["action"].startswith("segment") or t["action"] == "oom"]
        segments = [{"address": s["address"] - base, "size": s["total_size"], "small": s["segment_type"] == "small",
                     "expandable": s.get("is_expandable", False), "pool": list(s.get("segment_pool_id", (0, 0))),
                     "blocks": [[b["size"], b["requested_size"], b["state"]] for b in s["blocks"]]}
                    for s in snapshot["segments"]]
        return {"name": self.program.name, "settings": self.program.settings, "free_at_start": free_at_start,
                "alone": self.program.alone,
                "ops": ops, "rows": rows, "trace": trace, "segments": segments}

    @staticmethod
    def name_places(trace, rows, ops, pointers):
        """Gives each allocation its segment's ordinal and the offset in it, by following the trace."""
        segments, ordinal, places = {}, 0, []
        for t in trace:
            if t["action"] in ("segment_alloc", "segment_map"):
                segments[t["addr"]] = (ordinal, t["size"])
                ordinal += 1
            elif t["action"] in ("segment_free", "segment_unmap"):
                segments.pop(t["addr"], None)
            elif t["action"] == "alloc":
                place = [-2, -2]
                for address, (number, size) in segments.items():
                    if address <= t["addr"] < address + size:
                        place = [number, t["addr"] - address]
                        break
                places.append((t["addr"], place))
        position = 0
        for row, op, pointer in zip(rows, ops, pointers):
            if op[0] != "a" or pointer is None:
                continue
            while position < len(places) and places[position][0] != pointer:
                position += 1
            if position < len(places):
                row["place"] = places[position][1]
                position += 1


def child(name):
    import torch
    print(json.dumps(Runner(PROGRAMS[name]).run(), separators=(",", ":")))
    sys.stdout.flush()
    os._exit(0)  # the ballast and busy streams need no orderly end


def run_apart(name):
    settings = PROGRAMS[name].settings
    environment = {k: v for k, v in os.environ.items() if not k.endswith("ALLOC_CONF")}
    if settings:
        environment["PYTORCH_CUDA_ALLOC_CONF"] = settings
    try:
        done = subprocess.run([sys.executable, os.path.abspath(__file__), "--child", name], env=environment,
                              capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return {"name": name, "skipped": "took more than a minute"}
    if done.returncode != 0:
        return {"name": name, "skipped": done.stderr.strip()[-600:]}
    return json.loads(done.stdout.splitlines()[-1])


def main():
    if sys.argv[1] == "--child":
        return child(sys.argv[2])
    together = [p.name for p in PROGRAMS.values() if not p.alone]
    alone = [p.name for p in PROGRAMS.values() if p.alone]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(run_apart, together))
    results += [run_apart(name) for name in alone]
    import torch
    properties = torch.cuda.get_device_properties(0)
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                            capture_output=True, text=True).stdout.split("\n")[0]
    out = {"torch": torch.__version__, "cuda": torch.version.cuda, "driver": driver, "device": properties.name,
           "total_memory": properties.total_memory, "programs": results}
    with open(sys.argv[1], "w") as file:
        json.dump(out, file, separators=(",", ":"))
        file.write("\n")
    for result in results:
        errors = sum("error" in row for row in result.get("rows", []))
        print(f"{result['name']}: " + (f"skipped: {result['skipped'][-200:]}" if "skipped" in result
                                       else f"{len(result['rows'])} operations, {errors} errors"), file=sys.stderr)


if __name__ == "__main__":
    main()
