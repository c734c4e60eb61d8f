"""Where the CUDA driver places the segments of PyTorch's allocator, with NCCL in the process and without.

usage: torchrun --nproc-per-node 2 segment_placement.py STREAM.json(.gz) FILE [EVENTS]

STREAM is what `headroom simulate CONFIG --events` writes; its first EVENTS events (default: all) are served by PyTorch's
own caching allocator, block by block, in a process of its own each way:
  without   no process group
  before    an NCCL group that has reduced once before the first event
  as used   an NCCL group that opens where the program communicates: a barrier's number is reduced, a gathered parameter
            gathered, in the program's own blocks, as a training loop makes NCCL take its buffers among the segments
FILE gets for each the highest reserved bytes and, at that moment, the segments in the order of their addresses: bytes,
distance from the lowest, and the room behind each that no segment of the allocator holds.
"""

import gzip
import json
import os
import subprocess
import sys

WAYS = ("without", "before", "as used", "two groups")


class Block:
    """Memory of the allocator as a tensor sees it, without a copy."""

    def __init__(self, address, elements, kind):
        self.__cuda_array_interface__ = {"data": (address, False), "shape": (elements,), "typestr": kind, "version": 3}


def communicate(torch, name, address, size, rank, ranks, gathers):
    if name.startswith("c10d::barrier"):
        torch.distributed.all_reduce(torch.as_tensor(Block(address, 1, "<f4"), device="cuda"))
    elif name.endswith("all_gather") and size % (4 * ranks) == 0:
        whole = torch.as_tensor(Block(address, size // 4, "<f4"), device="cuda")
        part = whole.numel() // ranks
        torch.distributed.all_gather_into_tensor(whole, whole[rank * part:(rank + 1) * part], group=gathers)
    torch.cuda.synchronize()


def segments(torch):
    found = sorted((s["address"], s["total_size"]) for s in torch.cuda.memory_snapshot())
    ends = [address for address, _ in found[1:]] + [None]
    return [[size, address - found[0][0], None if end is None else end - address - size]
            for (address, size), end in zip(found, ends)]


def serve(way, stream, count):
    import torch

    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    torch.cuda.set_device(rank)
    torch.empty(1, device="cuda")
    torch.cuda.empty_cache()
    if way != "without":
        torch.distributed.init_process_group("nccl")
    if way == "before":
        number = torch.ones(1, device="cuda")
        torch.distributed.all_reduce(number)
        torch.distributed.all_gather_into_tensor(torch.empty(ranks, device="cuda"), number)
        torch.cuda.synchronize()
        del number
        torch.cuda.empty_cache()
    gathers = torch.distributed.new_group() if way == "two groups" else None
    with (gzip.open if stream.endswith(".gz") else open)(stream, "rt") as file:
        recorded = json.load(file)
    names = [label.split("|")[1] for label in recorded["labels"]]
    streams, live, highest, at_highest, between = {0: torch.cuda.default_stream()}, {}, -1, [], [0]
    for event in recorded["events"][:count]:
        if event[0] == "a":
            if event[3] not in streams:
                streams[event[3]] = torch.cuda.Stream()
            live[event[1]] = torch.cuda.caching_allocator_alloc(event[2], rank, streams[event[3]])
            if way in ("as used", "two groups"):
                communicate(torch, names[event[4]], live[event[1]], event[2], rank, ranks, gathers)
            between[-1] = max(between[-1], torch.cuda.memory_reserved())
            if torch.cuda.memory_reserved() > highest:
                highest, at_highest = torch.cuda.memory_reserved(), segments(torch)
        elif event[0] == "f":
            torch.cuda.caching_allocator_delete(live.pop(event[1]))
        elif event[0] == "e":
            torch.cuda.empty_cache()
            between.append(torch.cuda.memory_reserved())
    if way != "without":
        torch.distributed.destroy_process_group()
    return {"way": way, "events": count, "reserved": highest, "between": between, "segments": at_highest, "torch": torch.__version__,
            "device": torch.cuda.get_device_name()}


def main():
    stream, out = sys.argv[1:3]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else None
    if way := os.environ.get("HEADROOM_WAY"):
        row = serve(way, stream, count)
        if os.environ.get("RANK", "0") == "0":
            with open(out, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        return
    for number, way in enumerate(WAYS):  # a driver's choices depend on all that the process did before
        port = str(int(os.environ.get("MASTER_PORT", "29500")) + 1 + number)
        subprocess.run([sys.executable, *sys.argv], check=True,
                       env={**os.environ, "HEADROOM_WAY": way, "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": ""})


if __name__ == "__main__":
    main()
