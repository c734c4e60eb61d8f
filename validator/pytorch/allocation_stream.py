"""Writes every allocation and free of a run, with the operation behind each, as Headroom's tests read them.

    allocation_stream.begin()                  # before the first tensor
    ...
    allocation_stream.write("run.trace.json.gz", "name")

The file holds `events`: ["a", id, requested bytes, stream, label] and ["f", id], in order, and `labels`:
"python file:line:function|operator|autograd node". `recorded_events` of tests/support reads it; segments are left out.
"""

import gzip
import json
import os

import torch

OWN = ("transformers/", "/peft/", "/optim/", "/fsdp/", os.path.basename(__file__))
OPERATOR, NODE = "at::_ops::", "Backward"


def begin(entries=4_000_000):
    torch.cuda.memory._record_memory_history(enabled="all", context="alloc", stacks="all", max_entries=entries)


def python_line(frames, script):
    """The innermost line of a library that models are written in, or of the script itself."""
    for frame in frames:
        file = frame["filename"]
        if file.endswith(".py") and (file.endswith(script) or any(part in file for part in OWN)):
            return f"{os.path.basename(file)}:{frame['line']}:{frame['name']}"
    return ""


def label_of(frames, script):
    native = [frame["name"] for frame in frames if not frame["filename"].endswith(".py")]
    operator = next((name.split(OPERATOR)[1].split("(")[0] for name in native if OPERATOR in name), "")
    node = next((name.split("(")[0].rsplit("::", 2)[-2] for name in native
                 if NODE in name and "::apply(" in name), "")
    return f"{python_line(frames, script)}|{operator.replace('::call', '').replace('::redispatch', '')}|{node}"


def write(path, name, script="rlhf_step.py"):
    events, labels, streams, live, made = [], {}, {0: 0}, {}, 0
    for entry in torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]:
        if entry["action"] == "alloc":
            live[entry["addr"]] = made
            stream = streams.setdefault(entry["stream"], len(streams))
            label = labels.setdefault(label_of(entry.get("frames", ()), script), len(labels))
            events.append(["a", made, entry["size"], stream, label])
            made += 1
        elif entry["action"] == "free_completed" and entry["addr"] in live:
            events.append(["f", live.pop(entry["addr"])])
    with gzip.open(path, "wt") as file:
        json.dump({"case": name, "format": 2, "labels": list(labels), "events": events}, file, separators=(",", ":"))
