"""Records streams of allocations as PyTorch's CUDA caching allocator serves them, for `headroom replay --verify` and
`--predict`.

    python3 validator/pytorch/allocator_streams.py OUT.jsonl.gz [--seed N] [--events N] [--after KERNELS] [--jobs N]
                                                   [--only SETTINGS/KIND ...]

Needs one CUDA GPU with nothing else on it and PyTorch; about ten seconds a case, every case in a process of its own. The
streams follow from the seed alone. tests/data/allocator holds what such runs gave on an H100;
tests/simulator/replay/recording_test.cc names the files that it holds the simulated allocator to.

One JSON object a line:
  case, settings     a name, and the PYTORCH_CUDA_ALLOC_CONF
  kind, seed         the kind of program (below) and what its random numbers start from
  fraction           of the device that the process may hold; 0: no limit
  after              the kernels that had run before the first event; absent: none
  total_memory, device, torch
  events             ["a", id, bytes, stream 0..2] allocate; ["f", id] drop; ["r", id, stream] record_stream;
                     ["s"] synchronize the device; ["e"] empty the cache
  results            one row an event: bytes allocated, reserved, active and inactive_split after it; rows of "a" add
                     segment and offset (Places, below), or [-1, -1] where it ran out of memory
  segment_events     [action, bytes, 0|1 (default or another stream), address above the case's lowest (native only)]
  final              memory_stats at the end that are not zero
"""

import argparse
import concurrent.futures
import gzip
import json
import os
import random
import subprocess
import sys

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

SETTINGS = {  # name: (PYTORCH_CUDA_ALLOC_CONF, GiB that the process may hold where the kind sets no limit itself)
    "default": ("", None),
    "max_split_64": ("max_split_size_mb:64", None),
    "max_split_128_gc06": ("max_split_size_mb:128,garbage_collection_threshold:0.6", 3),
    "gc08": ("garbage_collection_threshold:0.8", 3),
    "round4": ("roundup_power2_divisions:4", None),
    "round_buckets": ("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", None),
    "expandable": ("expandable_segments:True", None),
    "expandable_gc": ("expandable_segments:True,garbage_collection_threshold:0.7", 3),
}


class Writer:
    """Collects events and knows which tensors live."""

    def __init__(self, random_numbers):
        self.random, self.events, self.live, self.made = random_numbers, [], [], 0

    def allocate(self, size, stream=0):
        self.events.append(["a", self.made, size, stream])
        self.live.append(self.made)
        self.made += 1
        return self.made - 1

    def free(self, tensor):
        self.live.remove(tensor)
        self.events.append(["f", tensor])

    def free_any(self):
        self.free(self.random.choice(self.live))

    def free_used_by(self, tensor, stream):
        """The synchronization comes after the free: it ends the event that the free recorded."""
        self.events.append(["r", tensor, stream])
        self.free(tensor)
        self.events.append(["s"])

    def empty(self):
        self.events.append(["e"])


def any_size(numbers):
    """From bytes to a fifth of a GiB, evenly in powers, often just around the allocator's own limits."""
    if numbers.random() < 0.2:
        limit = numbers.choice([512, 4 * KIB, 64 * KIB, MIB, 2 * MIB, 10 * MIB, 20 * MIB, 64 * MIB, 128 * MIB])
        return limit + numbers.choice([-1, 0, 1])
    return int(2 ** numbers.uniform(0, 27.6))


def drawn(w, count, empty, free, most, other):
    """Empties the cache, frees, or does `other`, by where a number falls; frees too with more than `most` tensors."""
    while len(w.events) < count:
        draw = w.random.random()
        if draw < empty:
            w.empty()
        elif w.live and (draw < free or len(w.live) > most):
            w.free_any()
        else:
            other(draw)


def mixed(w, count):
    drawn(w, count, 0.02, 0.44, 130, lambda draw: w.allocate(any_size(w.random)))


def limited(w, count):
    """Asks for about as much as the limit, so that the allocator releases, retries and fails."""
    def other(draw):
        w.allocate(w.random.randrange(100 * MIB, 600 * MIB) if draw < 0.46 else any_size(w.random))

    drawn(w, count, 0.01, 0.43, 150, other)


def big(w, count):
    while len(w.events) < count:
        if w.live and (len(w.live) > 6 or w.random.random() < 0.4):
            w.free_any()
        elif w.random.random() < 0.02:
            w.empty()
        else:
            w.allocate(w.random.randrange(100 * MIB, 1434 * MIB))


def kvgrow(w, count):
    """Decoding with a cache that is copied to one token more at every step."""
    layers, heads, rows = w.random.choice([8, 12]), w.random.choice([2, 8]), w.random.choice([16, 64])
    width, length = heads * 128 * rows * 2, w.random.randrange(100, 600)
    for _ in range(4):
        w.allocate(w.random.randrange(MIB, 24 * MIB))
    cache = [[w.allocate(width * length) for _ in "kv"] for _ in range(layers)]
    while len(w.events) < count:
        length += 1
        for layer in range(layers):
            hidden = [w.allocate(rows * heads * 512) for _ in range(3)]
            grown = [w.allocate(width * length) for _ in "kv"]
            for old in cache[layer]:
                w.free(old)
            cache[layer] = grown
            scores = w.allocate(rows * heads * length * 4)
            for tensor in [*hidden, scores]:
                w.free(tensor)
        logits = w.allocate(rows * 50257 * 2)
        w.allocate(rows * 8)
        w.free(logits)


def trainlike(w, count):
    """Forward, backward and optimizer steps; the batch's length changes from step to step."""
    layers, width = w.random.choice([4, 6]), w.random.choice([768, 1024, 2048])
    weights = [w.allocate(width * width * factor * 2) for _ in range(layers) for factor in (4, 4, 4)]
    states = None
    while len(w.events) < count:
        tokens, saved = w.random.randrange(256, 2048, 8), []
        for _ in range(layers):
            for factor in (1, 3, 1, 4, 4, 1):
                saved.append((w.allocate(tokens * width * factor * 2), tokens * width * factor * 2))
                if w.random.random() < 0.4:
                    w.free(w.allocate(tokens * width * 4))
        gradients = []
        for tensor, size in reversed(saved):
            gradient = w.allocate(size)
            w.free(tensor)
            w.free(gradient)
            if len(gradients) < len(weights) and w.random.random() < 0.5:
                gradients.append(w.allocate(width * width * 8))
        if states is None:
            states = [w.allocate(width * width * 16) for _ in weights for _ in "mv"]
        for gradient in gradients:
            w.free(gradient)
        if w.random.random() < 0.1:
            w.empty()


def streams(w, count):
    def other(draw):
        if w.live and draw < 0.46:
            tensor = w.random.choice(w.live)
            own = next(event[3] for event in w.events if event[0] == "a" and event[1] == tensor)
            w.free_used_by(tensor, w.random.choice([s for s in range(3) if s != own]))
        else:
            w.allocate(any_size(w.random), w.random.choice([0, 0, 1, 2]))

    drawn(w, count, 0.012, 0.40, 120, other)


KINDS = {"mixed": (mixed, None), "kvgrow": (kvgrow, None), "trainlike": (trainlike, None), "streams": (streams, None),
         "oom": (limited, 2), "big": (big, None)}  # kind: (program, GiB that the process may hold)


class Places:
    """Names places in memory by the order in which segments appeared, or pieces of expandable ranges: what one event
    mapped, until an event unmaps from its start. A place in no piece is [-2, -2]."""

    def __init__(self):
        self.pieces, self.made = {}, 0

    def see(self, entry):
        if entry["action"] in ("segment_alloc", "segment_map"):
            self.pieces[entry["addr"]] = (self.made, entry["size"])
            self.made += 1
        else:
            self.pieces.pop(entry["addr"], None)

    def of(self, address):
        for start, (ordinal, size) in self.pieces.items():
            if start <= address < start + size:
                return [ordinal, address - start]
        return [-2, -2]


def fill():
    import torch

    torch.zeros(1, device="cuda")


def matmul():
    import torch

    matrix = torch.ones(512, 512, dtype=torch.bfloat16, device="cuda")
    matrix @ matrix


def layer():
    """One training step of a layer with attention."""
    import torch

    block = torch.nn.TransformerEncoderLayer(256, 4, batch_first=True, dtype=torch.bfloat16, device="cuda")
    optimizer = torch.optim.AdamW(block.parameters())
    block(torch.randn(2, 64, 256, dtype=torch.bfloat16, device="cuda")).float().pow(2).mean().backward()
    optimizer.step()


KERNELS = {"nothing": lambda: None, "fill": fill, "matmul": matmul, "layer": layer}


def execute(events, total, fraction, after):
    """Runs the events and returns what is recorded of them. PyTorch's own trace tells addresses and segments.

    Where the driver puts the code and the stacks of kernels decides where the segments after them lie: none runs
    unless asked for. What it allocates is gone, and counted nowhere, before the first tensor."""
    import gc
    import torch

    torch.cuda.init()
    KERNELS[after]()
    if after != "nothing":
        gc.collect()
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.reset_accumulated_memory_stats()
        assert torch.cuda.memory_reserved() == 0
    torch.empty(1, device="cuda")
    torch.cuda.empty_cache()
    if fraction > 0:
        torch.cuda.set_per_process_memory_fraction(fraction)
    queue = [torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
    torch.cuda.empty_cache()
    torch.cuda.memory._record_memory_history(enabled="all", context=None, stacks="python", max_entries=1_000_000)
    tensors, results = {}, []
    for event in events:
        operation = event[0]
        if operation == "a":
            try:
                with torch.cuda.stream(queue[event[3]]):
                    tensors[event[1]] = torch.empty(event[2], dtype=torch.uint8, device="cuda")
            except torch.OutOfMemoryError:
                pass
        elif operation == "f":
            tensors.pop(event[1], None)
        elif operation == "r":
            if event[1] in tensors:
                tensors[event[1]].record_stream(queue[event[2]])
        elif operation == "s":
            torch.cuda.synchronize()
        else:
            torch.cuda.empty_cache()
        stats = torch.cuda.memory_stats()
        results.append([stats[f"{name}.all.current"] for name in
                        ("allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes")])
        if operation == "a":
            results[-1].append(event[1] in tensors)
    final = {name: value for name, value in torch.cuda.memory_stats().items() if value}
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    segment_events = place(trace, results)
    return {"total_memory": total, "device": torch.cuda.get_device_name(), "torch": torch.__version__, "events": events,
            "results": results, "segment_events": segment_events, "final": final}


def place(trace, results):
    """Completes the rows of allocations from the trace; returns the segment events."""
    places, segment_events = Places(), []
    lowest = min((entry["addr"] for entry in trace if entry["action"] == "segment_alloc"), default=0)
    waiting = iter([row for row in results if len(row) == 5])
    for entry in trace:
        action, other = entry["action"], int(entry["stream"] != 0)
        if action.startswith("segment_"):
            places.see(entry)
            row = [action, entry["size"], other]
            segment_events.append(row if "map" in action else row + [entry["addr"] - lowest])
        elif action in ("alloc", "oom"):
            row = next(waiting)
            assert row.pop() == (action == "alloc")
            row.extend(places.of(entry["addr"]) if action == "alloc" else [-1, -1])
            if action == "oom":
                segment_events.append([action, entry["size"], other])
    assert next(waiting, None) is None
    return segment_events


def record(case):
    import torch

    program, limit = KINDS[case["kind"]]
    limit = limit or SETTINGS[case["case"]][1]
    total = torch.cuda.get_device_properties(0).total_memory
    fraction = limit * GIB / total if limit else 0.0
    writer = Writer(random.Random(f"{case['kind']} {case['seed']} {case['case']}"))
    program(writer, case["count"])
    return {"case": case["case"], "kind": case["kind"], "seed": case["seed"], "settings": SETTINGS[case["case"]][0],
            "fraction": fraction, **({"after": case["after"]} if case["after"] != "nothing" else {}),
            **execute(writer.events, total, fraction, case["after"])}


def main():
    if sys.argv[1:] == ["--case"]:
        json.dump(record(json.load(sys.stdin)), sys.stdout, separators=(",", ":"))
        return
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("out")
    arguments.add_argument("--seed", type=int, default=23)
    arguments.add_argument("--events", type=int, default=1200, help="at least so many in a case (300 of the kind big)")
    arguments.add_argument("--after", choices=KERNELS, default="nothing", help="kernels to run before the first event")
    arguments.add_argument("--jobs", type=int, default=1, help="cases at a time; more than one needs memory for all")
    arguments.add_argument("--only", nargs="*", metavar="SETTINGS/KIND", help="these cases instead of all")
    options = arguments.parse_args()
    cases = [{"case": settings, "kind": kind, "seed": options.seed, "after": options.after,
              "count": min(options.events, 300) if kind == "big" else options.events}
             for settings in SETTINGS for kind in KINDS
             if not options.only or f"{settings}/{kind}" in options.only]

    def run(case):
        environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": SETTINGS[case["case"]][0]}
        done = subprocess.run([sys.executable, __file__, "--case"], input=json.dumps(case), text=True,
                              capture_output=True, env=environment)
        if done.returncode != 0:
            raise SystemExit(f"{case['case']}/{case['kind']}: {done.stderr}")
        return done.stdout

    with gzip.open(options.out, "wt") as out, concurrent.futures.ThreadPoolExecutor(options.jobs) as workers:
        for case, line in zip(cases, workers.map(run, cases)):
            out.write(line + "\n")
            print(case["case"], case["kind"], file=sys.stderr)


if __name__ == "__main__":
    main()
