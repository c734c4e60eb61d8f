"""Runs many cases of rlhf_step.py in one process, each several steps, and keeps every step's seconds: what predictions of
time are held against, with the spread of repeating the same work.

usage: repeat_cases.py CASES.json OUT.json [--seconds 300]
       torchrun --nproc-per-node 2 repeat_cases.py CASES.json OUT.json        (cases of precision fsdp)

CASES.json is a list of cases (planner/frameworks/torch/read.h has the keys). OUT.json: {"host", "cores", "versions",
"recordings": [one as rlhf_step.py writes it, …]}. Each recording also has `unit`: the seconds that a fixed piece of host
work took before each step (measure_times.unit_seconds), by which a slow moment of the host is told from a slow case. Step 0
pays for first uses; the process is warm after the first case, so only the first one's step 0 shows a process's own.
"""
import argparse, gc, json, os, platform, sys, tempfile, time

import torch
from transformers.utils import logging

import headroom_recorder
import measure_times
import rlhf_step


def host_unit():
    return sorted(measure_times.unit_seconds() for _ in range(7))[3]


def run(case, device):
    torch.manual_seed(0)
    path = os.path.join(tempfile.mkdtemp(), "run.json")
    recorder = headroom_recorder.Recorder(path, case)
    loop = rlhf_step.Loop(case, recorder, device)
    units = []
    try:
        loop.start()
        for number in range(case.get("steps", 3)):
            units.append(host_unit())
            loop.step(number)
    except torch.cuda.OutOfMemoryError as error:
        recorder.record["oom"] = str(error)[:600]
    del loop
    gc.collect()
    torch.cuda.empty_cache()
    return {**recorder.record, "unit": units}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases")
    parser.add_argument("out")
    parser.add_argument("--seconds", type=float, default=300)
    options = parser.parse_args()
    logging.set_verbosity_error()
    with open(options.cases) as file:
        cases = json.load(file)
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    measure_times.DEVICE = device
    if ranks > 1:
        torch.distributed.init_process_group("cpu:gloo,cuda:nccl", device_id=device)
        torch.distributed.barrier()
    torch.backends.cuda.matmul.allow_tf32 = True
    out = {"host": measure_times.processor(), "cores": os.cpu_count(), "ranks": ranks,
           "versions": {"python": platform.python_version(), "torch": torch.__version__}, "recordings": []}
    started = time.perf_counter()
    for case in cases:
        go = torch.tensor([float(time.perf_counter() - started < options.seconds)], device=device)
        if ranks > 1:
            torch.distributed.broadcast(go, 0)
        if not go.item():
            print("out of time before", case["name"], flush=True)
            break
        began = time.perf_counter()
        try:
            recording = run(case, device)
        except Exception as error:  # one case must not cost the others
            if ranks > 1:
                raise
            recording = {"case": case, "error": f"{type(error).__name__}: {error}"[:600], "phases": []}
        out["recordings"].append(recording)
        if rank == 0:
            with open(options.out, "w") as file:
                json.dump(out, file)
            print(f"{case['name']}: {time.perf_counter() - began:.1f} s {recording.get('error', recording.get('oom', ''))}",
                  flush=True)
    if ranks > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
