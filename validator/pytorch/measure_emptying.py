"""Measures what emptying PyTorch's cache costs a step: the same RLHF loop emptied and not, by turns in one process.

usage: measure_emptying.py CASES.json OUT.json [--seconds 150]

CASES.json is a list of cases of rlhf_step.py. Each runs blocks of steps: never emptied, after inference phases, after all
phases, and again; the first step of a block, which still finds the cache of the block before, is left out. Blocks of one
kind lie between blocks of the other, so that a host whose speed drifts costs both alike. OUT.json: {"host", "cores",
"versions", "cases": [{"case", "steps": [{"empty", "block", "first", "seconds", "emptying", "phases", "unit", "calls"}]}],
"rows": driver calls one by one}. `emptying`: seconds inside of torch.cuda.empty_cache(); `calls`: cudaMalloc and cudaFree
of the step; `driver`: how many they were and how long they took, where driver_clock.c is preloaded; `unit`: a fixed piece of
host work beside it.

Rows: segments of several sizes got one by one, and given back at once, on an empty card and beside 30 GiB in use.
"""
import argparse, gc, json, os, platform, sys, tempfile, time

import torch
from transformers.utils import logging

import driver_clock
import headroom_recorder
import measure_times
import repeat_cases
import rlhf_step

MIB = 1 << 20


def calls():
    stats = torch.cuda.memory_stats()
    return [stats["num_device_alloc"], stats["num_device_free"]]


def run(case, device, turns, block):
    torch.manual_seed(0)
    recorder = headroom_recorder.Recorder(os.path.join(tempfile.mkdtemp(), "run.json"), case)
    loop = rlhf_step.Loop(case, recorder, device)
    emptied = [0.0]
    plain = torch.cuda.empty_cache

    def timed():
        start = time.perf_counter()
        plain()
        emptied[0] += time.perf_counter() - start

    steps = []
    loop.start()
    torch.cuda.empty_cache = timed
    try:
        number = 0
        for turn in range(turns):
            for kind in ("none", "inference", "none", "all"):
                loop.case["empty_cache"] = kind
                for at in range(block):
                    unit, before, emptied[0] = repeat_cases.host_unit(), calls(), 0.0
                    clock = driver_clock.read()
                    begun = len(recorder.record["phases"])
                    torch.cuda.synchronize()
                    start = time.perf_counter()
                    loop.step(number)
                    torch.cuda.synchronize()
                    took = time.perf_counter() - start
                    phases = {row["phase"]: row["seconds"] for row in recorder.record["phases"][begun:]}
                    after = calls()
                    steps.append(dict(empty=kind, block=turn, first=at == 0 or number == 0, seconds=took, emptying=emptied[0],
                                      phases=phases, unit=unit, calls=[b - a for a, b in zip(before, after)],
                                      driver=clock and driver_clock.since(clock)))
                    number += 1
    finally:
        torch.cuda.empty_cache = plain
    del loop
    gc.collect()
    torch.cuda.empty_cache()
    return {"case": case, "steps": steps}


def segments(device):
    """Each size: how long one more takes to get, and all of them to give back, over their number."""
    rows = []
    for beside in (0, 30):
        held = torch.empty(beside << 30, dtype=torch.uint8, device=device) if beside else None
        for size, count in ((2, 200), (20, 200), (64, 100), (200, 50), (500, 20), (1000, 10), (4000, 4)):
            for turn in range(5):
                torch.cuda.empty_cache()
                torch.cuda.synchronize()
                kept, gets = [], []
                for _ in range(count):
                    start = time.perf_counter()
                    kept.append(torch.empty(size * MIB, dtype=torch.uint8, device=device))
                    gets.append(time.perf_counter() - start)
                for x in kept:
                    x.fill_(1)
                torch.cuda.synchronize()
                start = time.perf_counter()
                for x in kept:
                    x.fill_(1)
                torch.cuda.synchronize()
                again = time.perf_counter() - start
                kept.clear()
                del x
                start = time.perf_counter()
                torch.cuda.empty_cache()
                back = time.perf_counter() - start
                rows.append(dict(part="segments", bytes=size * MIB, count=count, beside=beside << 30, turn=turn,
                                 get=sum(gets) / count, least_get=min(gets), most_get=max(gets), give_back=back / count,
                                 fill_again=again, unit=repeat_cases.host_unit()))
        del held
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases")
    parser.add_argument("out")
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--block", type=int, default=4)
    options = parser.parse_args()
    logging.set_verbosity_error()
    with open(options.cases) as file:
        cases = json.load(file)
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    measure_times.DEVICE = device
    torch.backends.cuda.matmul.allow_tf32 = True
    out = {"gpu": torch.cuda.get_device_name(), "host": measure_times.processor(), "cores": os.cpu_count(),
           "versions": {"python": platform.python_version(), "pytorch": torch.__version__, "cuda": torch.version.cuda},
           "cases": [], "rows": segments(device)}
    started = time.perf_counter()
    for case in cases:
        if time.perf_counter() - started > options.seconds:
            print("out of time before", case["name"], flush=True)
            break
        began = time.perf_counter()
        try:
            out["cases"].append(run(case, device, options.turns, options.block))
        except Exception as error:  # one case must not cost the others
            out["cases"].append({"case": case, "error": f"{type(error).__name__}: {error}"[:600], "steps": []})
        print(f"{case['name']}: {time.perf_counter() - began:.1f} s {out['cases'][-1].get('error', '')}", flush=True)
        with open(options.out, "w") as file:
            json.dump(out, file)


if __name__ == "__main__":
    sys.exit(main())
