"""Records the snapshots under tests/data/snapshots on a machine with PyTorch and a GPU.

usage: record_snapshots.py CASE OUTDIR     one case a process: the allocator's settings are read once
       record_snapshots.py list            names the cases

Each case writes CASE.pickle.gz (what torch.cuda.memory._dump_snapshot wrote, compressed) and CASE.stats.json
(torch.cuda.memory_stats() at the dump, and what the case notes on the way).
"""
import gzip
import json
import os
import sys

SETTINGS = {"expandable": "expandable_segments:True", "training-split": "max_split_size_mb:32"}


def main():
    if sys.argv[1] == "list":
        print(" ".join(CASES))
        return
    case, out = sys.argv[1:3]
    if case in SETTINGS:
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = SETTINGS[case]
    global torch
    import torch
    torch.cuda.init()
    notes = CASES[case](out) or {}
    stats = torch.cuda.memory_stats()
    name = os.path.join(out, case)
    if not notes.pop("dumped", False):
        torch.cuda.memory._dump_snapshot(name + ".pickle")
    with open(name + ".pickle", "rb") as f, gzip.GzipFile(name + ".pickle.gz", "wb", 9, mtime=0) as g:
        g.write(f.read())
    os.remove(name + ".pickle")
    with open(name + ".stats.json", "w") as f:
        json.dump({"torch": torch.__version__, "settings": SETTINGS.get(case, ""), "notes": notes,
                   "total_memory": torch.cuda.get_device_properties(0).total_memory, "stats": stats}, f, indent=0)


def record(entries=1_000_000, **more):
    torch.cuda.memory._record_memory_history(enabled="all", max_entries=entries, **more)


def empty(n):
    return torch.empty(n, dtype=torch.uint8, device="cuda")


def basic(out):
    """Two sizes, a free block's leftovers, a released segment, an out-of-memory."""
    record(context="all", stacks="python")
    x = torch.empty(1000, device="cuda")
    y = empty(3 << 20)
    del x
    z = empty(600)
    big = empty(40 << 20)
    del big
    torch.cuda.empty_cache()
    try:
        empty(1 << 45)
    except torch.OutOfMemoryError as e:
        message = str(e)
    keep(y, z)
    return {"message": message}


KEPT = []


def keep(*tensors):
    KEPT.extend(tensors)


def streams(out):
    """Blocks that wait for another stream, a private pool, a captured graph, a marker of an earlier snapshot."""
    record(context="alloc", stacks="python")
    side = torch.cuda.Stream()
    t = empty(3 << 20)
    with torch.cuda.stream(side):
        torch.cuda._sleep(10**9)
    t.record_stream(side)
    del t
    pending = torch.cuda.memory._snapshot()
    torch.cuda.synchronize()
    keep(torch.empty(1, device="cuda"))
    with torch.cuda.stream(side):
        keep(empty(5 << 20))
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        keep(empty(7 << 20))
    graph = torch.cuda.CUDAGraph()
    static = torch.zeros(1 << 20, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        r = static * 2 + 1
    keep(graph, r, pool, side, static)
    t = empty(9 << 20)
    with torch.cuda.stream(side):
        torch.cuda._sleep(10**9)
    t.record_stream(side)
    del t
    states = [b["state"] for s in pending["segments"] for b in s["blocks"]]
    return {"pending_states": states}


def expandable(out):
    """An expandable range that grows, shrinks in the middle and grows again."""
    record(context="alloc", stacks="python")
    p = torch.empty(25, device="cuda")
    q = empty(30 << 20)
    r = empty(15 << 20)
    del q
    torch.cuda.empty_cache()
    keep(p, r, empty(25 << 20), empty(10 << 20))


def train(entries, emptied=False):
    from torch.profiler import record_function
    torch.manual_seed(0)
    layer = lambda: torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, dropout=0.0)
    body = torch.nn.Sequential(torch.nn.Embedding(4000, 256), *[layer() for _ in range(3)], torch.nn.Linear(256, 4000)).cuda()
    optimizer = torch.optim.AdamW(body.parameters(), lr=1e-4)
    torch.cuda.synchronize()
    record(entries, context="alloc", stacks="python")
    for step in range(2):
        with record_function("generate"), torch.no_grad():
            ids = torch.randint(0, 4000, (8, 16), device="cuda")
            for _ in range(24):
                nxt = body(ids)[:, -1].argmax(-1, keepdim=True)
                ids = torch.cat([ids, nxt], 1)
        if emptied:
            torch.cuda.empty_cache()
        with record_function("logprob"), torch.no_grad():
            ref = body(ids).log_softmax(-1)
        with record_function("train"):
            loss = torch.nn.functional.cross_entropy(body(ids).flatten(0, 1), ids.flatten()) + ref.mean() * 0
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        del ref, loss
        if emptied:
            torch.cuda.empty_cache()
    keep(body, optimizer)
    torch.cuda.synchronize()


def training(out):
    """Two steps of a small transformer: generation, log-probabilities, training."""
    train(1_000_000)


def training_emptied(out):
    train(1_000_000, emptied=True)


def training_split(out):
    train(1_000_000)


def truncated(out):
    """The same with a short history: everything but the last 400 events is lost."""
    train(400)


def cpp(out):
    """The snapshot that PyTorch's own C++ writer makes."""
    from torch.utils.cpp_extension import load_inline
    m = load_inline("snap", cpp_sources='#include <torch/extension.h>\n#include <torch/csrc/cuda/memory_snapshot.h>\n'
                    'py::bytes snap() { return py::bytes(torch::cuda::_memory_snapshot_pickled()); }',
                    functions=["snap"], with_cuda=True)
    record(context="alloc", stacks="python")
    x = torch.empty(1000, device="cuda")
    y = empty(3 << 20)
    del x
    keep(y, empty(40 << 20))
    with open(os.path.join(out, "cpp.pickle"), "wb") as f:
        f.write(m.snap())
    return {"dumped": True}


CASES = {"basic": basic, "streams": streams, "expandable": expandable, "training": training, "training-split": training_split,
         "training-emptied": training_emptied, "truncated": truncated, "cpp": cpp}

if __name__ == "__main__":
    main()
