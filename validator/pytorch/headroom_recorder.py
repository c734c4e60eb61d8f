"""Records what memory each phase of a PyTorch run takes, as JSON that `headroom compare` and `headroom validate
--recording` read. One file, no dependency but PyTorch: copy it beside the training script.

Two lines in the script:

    import headroom_recorder as headroom
    headroom.start("run.json")

then mark the phases, whichever way is the smaller change:

    with headroom.phase("train_actor"):          # a block
        ...
    headroom.mark(trainer, update_actor="train_actor", generate_sequences="generate")    # methods, as they are called

Phases have Headroom's names: init, generate, reward, actor_logprob, ref_logprob, critic_values, train_actor,
train_critic, weight_sync, save_checkpoint. A step begins when the first phase of a step comes again (or give `step=`);
`init` is step -1. With several ranks, rank 0 writes run.json and rank N run.rankN.json. The file is replaced after every
phase, so a run that crashes leaves what it measured; the phase that ran out of memory has its message.

start("run.json", snapshot="run.pickle") also keeps PyTorch's memory history and writes a snapshot when memory runs out
or the process ends; `headroom replay run.pickle` reads it. History costs time and host memory: leave it out of long runs.
"""

import atexit
import contextlib
import functools
import json
import os
import time

import torch

# The counter of torch.cuda.memory_stats() behind each figure of a phase.
AT_START = {"alloc_start": "allocated_bytes.all.current", "reserved_start": "reserved_bytes.all.current"}
AT_END = {
    "peak_alloc": "allocated_bytes.all.peak",
    "peak_reserved": "reserved_bytes.all.peak",
    "peak_active": "active_bytes.all.peak",
    "alloc_end": "allocated_bytes.all.current",
    "reserved_end": "reserved_bytes.all.current",
    "inactive_split_end": "inactive_split_bytes.all.current",
    "segments": "segment.all.current",
    "retries": "num_alloc_retries",
}
ALLOCATIONS = "allocation.all.allocated"
HISTORY_ENTRIES = 1_000_000


def device_used():
    """Bytes in use on the card, by all processes together."""
    free, total = torch.cuda.mem_get_info()
    return total - free


class Recorder:
    """One process's recording. `case`: anything to keep with it, such as the run's settings."""

    def __init__(self, path, case=None, snapshot=None):
        self.rank = int(os.environ.get("RANK", "0"))
        self.path, self.snapshot = self._of_rank(path), snapshot and self._of_rank(snapshot)
        self.step, self.first, self.depth = 0, None, 0
        self.record = {"schema": "headroom.recording/1", "phases": []}
        if case is not None:
            self.record["case"] = case
        if self.snapshot:
            torch.cuda.memory._record_memory_history(max_entries=HISTORY_ENTRIES)
            atexit.register(self.write_snapshot)

    def _of_rank(self, path):
        base, extension = os.path.splitext(path)
        return path if self.rank == 0 else f"{base}.rank{self.rank}{extension}"

    def describe(self):
        """Versions and the card: once CUDA is in use anyway."""
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        about = {
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "device": properties.name,
            "total_memory": properties.total_memory,
            "alloc_conf": os.environ.get("PYTORCH_ALLOC_CONF", os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")),
            "rank": self.rank,
            "ranks": int(os.environ.get("WORLD_SIZE", "1")),
        }
        with contextlib.suppress(Exception):
            about["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
        for library in ("transformers", "vllm", "deepspeed", "trl", "verl"):
            with contextlib.suppress(Exception):
                about[library] = __import__("importlib.metadata", fromlist=["version"]).version(library)
        self.record = {**about, **self.record}

    def place(self, name, step):
        """The step that a phase belongs to."""
        if step is not None:
            self.step = max(step, 0)
            return step
        if name == "init":
            return -1
        if self.first is None:
            self.first = name
        elif name == self.first:
            self.step += 1
        return self.step

    @contextlib.contextmanager
    def phase(self, name, step=None):
        """Measures a block. Phases inside it are measured for themselves and carry their `depth`; a block around them has
        the peaks since the last of them ended."""
        step = self.place(name, step)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        start = torch.cuda.memory_stats()
        row = {"step": step, "phase": name}
        if self.depth:
            row["depth"] = self.depth
        row.update({key: start[counter] for key, counter in AT_START.items()})
        self.depth += 1
        began, error = time.perf_counter(), None
        try:
            yield row
        except BaseException as raised:
            error = raised
            raise
        finally:
            self.depth -= 1
            self.finish(row, start, began, error)

    def finish(self, row, start, began, error):
        with contextlib.suppress(RuntimeError):  # after a failed kernel nothing can be waited for
            torch.cuda.synchronize()
        end = torch.cuda.memory_stats()
        row.update({key: end[counter] for key, counter in AT_END.items()})
        row["n_allocs"] = end[ALLOCATIONS] - start[ALLOCATIONS]
        row["device_used_end"] = device_used()
        row["seconds"] = round(time.perf_counter() - began, 4)
        row["error"] = type(error).__name__ if error else None
        if error:
            row["message"] = str(error)[:600]
        if not self.record["phases"]:
            self.describe()
        self.record["phases"].append(row)
        self.write()
        if isinstance(error, torch.cuda.OutOfMemoryError):
            self.write_snapshot()

    def note_empty_cache(self):
        """The cache has just been emptied after the last phase."""
        if self.record["phases"]:
            self.record["phases"][-1]["reserved_after_empty"] = torch.cuda.memory_reserved()
            self.write()

    def write(self):
        temporary = f"{self.path}.tmp"
        with open(temporary, "w") as file:
            json.dump(self.record, file)
        os.replace(temporary, self.path)

    def write_snapshot(self):
        if self.snapshot:
            torch.cuda.memory._dump_snapshot(self.snapshot)

    def mark(self, target, **phases):
        """Every call of `target`'s method is a phase: mark(trainer, method="phase", …)."""
        for method, name in phases.items():
            setattr(target, method, self._marked(getattr(target, method), name))

    def _marked(self, call, name):
        @functools.wraps(call)
        def measured(*arguments, **named):
            with self.phase(name):
                return call(*arguments, **named)

        return measured


_recorder = None


def start(path, case=None, snapshot=None):
    """Begins this process's recording."""
    global _recorder
    _recorder = Recorder(path, case, snapshot)
    return _recorder


def phase(name, step=None):
    """A block's measurement; nothing where no recording was started."""
    return _recorder.phase(name, step) if _recorder else contextlib.nullcontext()


def mark(target, **phases):
    if _recorder:
        _recorder.mark(target, **phases)
