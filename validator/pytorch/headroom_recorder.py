"""Records what memory each phase of a PyTorch run takes, as JSON that `headroom compare` and `headroom validate
--recording` read. One file, no dependency but PyTorch: copy it beside the training script.

Two lines in the script:

    import headroom_recorder as headroom
    headroom.start("run.json")

then mark the phases, whichever way is the smaller change:

    with headroom.phase("train_actor"):          # a block
        ...
    headroom.mark(trainer, update_actor="train_actor", generate_sequences="generate")    # methods, as they are called

Methods may be coroutine functions (measured from the first to the last await) or generators (from the first item asked
for to the last, with what their caller does between items). mark() may stand before start().

Phases have Headroom's names: init, generate, reward, actor_logprob, ref_logprob, critic_values, train_actor,
train_critic, weight_sync, save_checkpoint. A phase within another is a row with its `depth`; the one around it has the
peaks of both. `init` is step -1.

What ends a step: the phase that came first begins again, after another one came in between; calls of one phase in a row
are one step. Where a run marks one phase alone, each of its calls is a step. Where a step goes around several times
(generate, reward, generate, reward, train_actor), say it: headroom.step() at the start of every step, or at the end of
every step, and nothing else ends one. Or give `step=` to the first phase of every step, or to all.

With several ranks, rank 0 writes run.json and rank N run.rankN.json; the rank is RANK of the environment, else
torch.distributed's. A spawned process without either writes run.pidN.json. The file is replaced after every phase, so a
run that crashes leaves what it measured; the phase that ran out of memory has its message.

A recorder never ends a training: where it cannot measure or write it says so once on stderr, and the script goes on.
Peaks are read from PyTorch's own, which every phase resets: a script that resets them too takes from what is measured.

start("run.json", snapshot="run.pickle") also keeps PyTorch's memory history and writes a snapshot when memory runs out
or the process ends; `headroom replay run.pickle` reads it. History costs time and host memory: leave it out of long runs.
"""

import atexit
import contextlib
import functools
import inspect
import json
import multiprocessing
import os
import sys
import time

import torch

# The counter of torch.cuda.memory_stats() behind each figure of a phase.
AT_START = {"alloc_start": "allocated_bytes.all.current", "reserved_start": "reserved_bytes.all.current"}
PEAKS = {
    "peak_alloc": "allocated_bytes.all.peak",
    "peak_reserved": "reserved_bytes.all.peak",
    "peak_active": "active_bytes.all.peak",
}
AT_END = {
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


def distributed():
    """torch.distributed once it knows the ranks, else None."""
    ranks = getattr(torch, "distributed", None)
    return ranks if ranks and ranks.is_available() and ranks.is_initialized() else None


class Phase:
    """A block being measured: what Recorder.phase returns, for one `with`."""

    def __init__(self, recorder, name, step):
        self.recorder, self.row, self.peaks = recorder, {"phase": name}, {}
        self.step, self.before = step, None

    def __enter__(self):
        self.recorder.attempt("measure", self.recorder.begin, self)
        self.began = time.perf_counter()
        return self.row

    def __exit__(self, _kind, error, _trace):
        self.recorder.attempt("measure", self.recorder.finish, self, error)
        return False

    def fold(self, stats):
        """Peaks of `stats` are peaks of this block too."""
        for key, counter in PEAKS.items():
            self.peaks[key] = max(self.peaks.get(key, 0), stats[counter])


class Recorder:
    """One process's recording. `case`: anything to keep with it, such as the run's settings."""

    def __init__(self, path, case=None, snapshot=None):
        self.path, self.snapshot, self.written = path, snapshot, None
        self.now, self.first, self.alternates, self.between, self.told = 0, None, False, False, False
        self.placed, self.open = [], []  # rows whose step was not given; phases that have not ended, outermost first
        self.record = {"schema": "headroom.recording/1", "phases": []}
        self.warned, self.able = False, False
        self.attempt("start", self.prepare, case)

    def prepare(self, case):
        if not torch.cuda.is_available():
            self.warn("nothing is recorded: PyTorch finds no CUDA device.")
            return
        self.able = True
        for path in filter(None, (self.path, self.snapshot)):
            self.attempt("write", self.try_folder, path)
        if case is not None:
            self.keep(case)
        if self.snapshot:
            torch.cuda.memory._record_memory_history(max_entries=HISTORY_ENTRIES)
            atexit.register(self.write_snapshot)

    def warn(self, message):
        """Once: whatever else goes wrong would be said after every phase."""
        if not self.warned:
            self.warned = True
            with contextlib.suppress(Exception):
                print(f"headroom_recorder: {message} The training goes on.", file=sys.stderr, flush=True)

    def attempt(self, what, act, *arguments):
        """`act`, whose failure is a warning: a script's own errors, and its end, are its own."""
        try:
            return act(*arguments)
        except Exception as error:
            self.warn(f"cannot {what} ({self.path}): {type(error).__name__}: {error}.")

    def try_folder(self, path):
        """Finds out now, not after an hour's phase, whether the file can be written."""
        folder = os.path.dirname(os.path.abspath(path))
        os.makedirs(folder, exist_ok=True)
        if os.path.isdir(path):
            raise IsADirectoryError("expected the name of a file, found a folder")
        trial = os.path.join(folder, f".headroom.{os.getpid()}")
        with open(trial, "w"):
            pass
        os.remove(trial)

    def keep(self, case):
        try:
            self.record["case"] = json.loads(json.dumps(case))
        except (TypeError, ValueError, RecursionError) as error:
            self.warn(f"`case` is no JSON ({error}) and is kept as text.")
            self.record["case"] = {"text": self.attempt("keep `case`", repr, case)}

    def rank(self):
        """None where nothing says it."""
        if os.environ.get("RANK", "").isdigit():
            return int(os.environ["RANK"])
        ranks = distributed()
        return ranks.get_rank() if ranks else None

    def of_rank(self, path):
        base, extension = os.path.splitext(path)
        rank = self.rank()
        if rank is None and multiprocessing.parent_process() is not None:
            return f"{base}.pid{os.getpid()}{extension}"
        return f"{base}.rank{rank}{extension}" if rank else path

    def ranks(self):
        if os.environ.get("WORLD_SIZE", "").isdigit():
            return int(os.environ["WORLD_SIZE"])
        ranks = distributed()
        return ranks.get_world_size() if ranks else 1

    def describe(self):
        """Versions and the card: once CUDA is in use anyway."""
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        about = {
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "device": properties.name,
            "total_memory": properties.total_memory,
            "alloc_conf": os.environ.get("PYTORCH_ALLOC_CONF", os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")),
        }
        with contextlib.suppress(Exception):
            about["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
        for library in ("transformers", "vllm", "deepspeed", "trl", "verl"):
            with contextlib.suppress(Exception):
                about[library] = __import__("importlib.metadata", fromlist=["version"]).version(library)
        self.record = {**about, **self.record}

    def place(self, row, step):
        """Gives `row` the step that it belongs to."""
        name = row["phase"]
        if step is not None:
            row["step"], self.now, self.told = int(step), max(int(step), 0), True
            return
        if name == "init":
            row["step"] = -1
            return
        if self.first is None:
            self.first = name
        elif name != self.first:
            if not self.alternates:  # the calls of one phase so far were not steps, but one step's
                self.alternates = True
                self.merge_placed()
            self.between = True
        elif not self.told and (self.between or not self.alternates):
            self.now += 1
            self.between = False
        row["step"] = self.now
        self.placed.append(row)

    def merge_placed(self):
        """What was placed so far is one step."""
        if self.placed and not self.told:
            self.now = self.placed[0]["step"]
            for row in self.placed:
                row["step"] = self.now

    def next_step(self):
        """A step begins, or the one before has ended; from now on nothing else says so."""
        self.merge_placed()
        if self.placed:
            self.now += 1
        self.told = True
        self.placed = self.placed or [{}]  # a second call ends a step, phases or none

    def step(self):
        self.attempt("count steps", self.next_step)

    def phase(self, name, step=None):
        """Measures a block. Phases inside it are measured for themselves, carry their `depth`, and pass their peaks on."""
        return Phase(self, name, step)

    def begin(self, phase):
        if not self.able:
            return
        self.place(phase.row, phase.step)
        with contextlib.suppress(RuntimeError):  # of a kernel before: the script's next call meets it
            torch.cuda.synchronize()
        if self.open:
            phase.row["depth"] = len(self.open)
            self.fold(torch.cuda.memory_stats())  # before they are reset for all
        torch.cuda.reset_peak_memory_stats()
        start = torch.cuda.memory_stats()
        phase.row.update({key: start[counter] for key, counter in AT_START.items()})
        phase.fold(start)
        phase.before = start
        self.open.append(phase)

    def fold(self, stats):
        for phase in self.open:
            phase.fold(stats)

    def finish(self, phase, error):
        if phase.before is None:
            return
        row = phase.row
        row.update(seconds=round(time.perf_counter() - phase.began, 4), error=None)
        self.attempt("measure", self.measure, phase)
        self.open = [other for other in self.open if other is not phase]
        row.update(phase.peaks)
        if error is not None and not isinstance(error, GeneratorExit):  # a generator may be left early
            row["error"] = type(error).__name__
            row["message"] = (self.attempt("read the error", str, error) or "")[:600]
        if not self.record["phases"]:
            self.attempt("describe the card", self.describe)
        self.record["phases"].append(row)
        self.write()
        if isinstance(error, torch.cuda.OutOfMemoryError):
            self.write_snapshot()

    def measure(self, phase):
        with contextlib.suppress(RuntimeError):  # after a failed kernel nothing can be waited for
            torch.cuda.synchronize()
            phase.row["seconds"] = round(time.perf_counter() - phase.began, 4)
        end = torch.cuda.memory_stats()
        self.fold(end)
        phase.row.update({key: end[counter] for key, counter in AT_END.items()})
        phase.row["n_allocs"] = end[ALLOCATIONS] - phase.before[ALLOCATIONS]
        phase.row["device_used_end"] = device_used()

    def note_empty_cache(self):
        """The cache has just been emptied after the last phase."""
        if self.record["phases"]:
            self.record["phases"][-1]["reserved_after_empty"] = self.attempt("measure", torch.cuda.memory_reserved)
            self.write()

    def write(self):
        self.attempt("write", self.replace_file)

    def replace_file(self):
        path, rank = self.of_rank(self.path), self.rank()
        temporary = f"{path}.{os.getpid()}.tmp"
        about = {"rank": rank or 0, "ranks": self.ranks()}
        try:
            with open(temporary, "w") as file:
                json.dump({**about, **self.record}, file, default=str)
            os.replace(temporary, path)
        finally:
            with contextlib.suppress(OSError):
                os.remove(temporary)
        if self.written not in (None, path) and f".pid{os.getpid()}." in self.written:
            os.remove(self.written)  # written before the rank was known
        self.written = path

    def write_snapshot(self):
        if self.snapshot and self.able:
            self.attempt("write the snapshot",
                         lambda: torch.cuda.memory._dump_snapshot(self.of_rank(self.snapshot)))

    def mark(self, target, **phases):
        """Every call of `target`'s method is a phase: mark(trainer, method="phase", …)."""
        for method, name in phases.items():
            self.attempt(f"mark {method}", mark_method, target, method, name, self.phase)


def mark_method(target, method, name, phase):
    setattr(target, method, measured(getattr(target, method), name, phase))


def measured(call, name, phase):
    """`call` within a phase(name), as the kind of function that it is."""
    code = call if inspect.isroutine(call) or isinstance(call, functools.partial) else type(call).__call__

    def wraps(wrapper):
        return functools.wraps(call)(wrapper)

    if inspect.iscoroutinefunction(code):

        @wraps
        async def wrapper(*arguments, **named):
            with phase(name):
                return await call(*arguments, **named)

    elif inspect.isasyncgenfunction(code):

        @wraps
        async def wrapper(*arguments, **named):
            with phase(name):
                items = call(*arguments, **named)
                try:
                    async for item in items:
                        yield item
                finally:
                    await items.aclose()

    elif inspect.isgeneratorfunction(code):

        @wraps
        def wrapper(*arguments, **named):
            with phase(name):
                return (yield from call(*arguments, **named))

    else:

        @wraps
        def wrapper(*arguments, **named):
            with phase(name):
                return call(*arguments, **named)

    return wrapper


_recorder = None


def start(path, case=None, snapshot=None):
    """Begins this process's recording, in a folder that is made where there is none."""
    global _recorder
    _recorder = Recorder(path, case, snapshot)
    return _recorder


def phase(name, step=None):
    """A block's measurement; nothing where no recording was started."""
    return _recorder.phase(name, step) if _recorder else contextlib.nullcontext()


def step():
    """Call it at the start of every step, or at the end of every step: nothing else ends one then."""
    if _recorder:
        _recorder.step()


def mark(target, **phases):
    """Every call of `target`'s methods is a phase, from start() on: mark(trainer, method="phase", …)."""
    for method, name in phases.items():
        try:
            mark_method(target, method, name, phase)
        except Exception as error:
            print(f"headroom_recorder: cannot mark {method}: {type(error).__name__}: {error}. The training goes on.",
                  file=sys.stderr)
