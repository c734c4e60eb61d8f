"""Measures what Python and PyTorch's dispatch cost on this machine, and prints it as JSON: what `headroom calibrate --python`
runs. No argument, no dependency but PyTorch with a GPU; about ten seconds.

Each of `seconds` is the host's time of one call while the GPU keeps up, the median of several rounds in which the pieces
take turns: a host's speed drifts. The same pieces on the machine of the shipped profiles stand in
validator/profile/host_times.cc.
"""
import json, os, platform, statistics, time

import torch
import torch.nn.functional as F

ROUNDS, CALLS = 9, 60


def timed(work, calls=CALLS):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - start) / calls


def timed_backward(step, x, chain=40):
    t = x
    for _ in range(chain):
        t = step(t)
    gradient = torch.ones_like(t)
    torch.cuda.synchronize()
    start = time.perf_counter()
    torch.autograd.backward(t, gradient)
    seconds = (time.perf_counter() - start) / chain
    x.grad = None
    return seconds


def pieces():
    device = torch.device("cuda")
    narrow = dict(device=device, dtype=torch.bfloat16)
    x, y = torch.randn(4, 64, **narrow), torch.randn(4, 64, **narrow)
    graded = torch.randn(4, 64, **narrow).requires_grad_(True)
    wide = torch.randn(4, 64, device=device)
    linear = torch.nn.Linear(64, 64, bias=False, **narrow)
    identity = torch.nn.Identity()
    weights = [torch.randn(64, device=device, requires_grad=True) for _ in range(100)]
    for w in weights:
        w.grad = torch.randn_like(w)
    steps = {kind: torch.optim.AdamW(weights, lr=1e-6, **how)
             for kind, how in (("foreach", {"foreach": True}), ("fused", {"fused": True}), ("loop", {"foreach": False}))}

    def checkpointed():
        from torch.utils.checkpoint import checkpoint
        once = timed(lambda: graded * 2.0, 20)
        return timed(lambda: checkpoint(lambda u: u * 2.0, graded, use_reentrant=False), 20) - once

    def without_gradients(work, calls=CALLS):
        def run():
            with torch.no_grad():
                return timed(work, calls)
        return run

    out = {
        "module": without_gradients(lambda: identity(x)),
        "add": without_gradients(lambda: x + y),
        "mul": without_gradients(lambda: x * 2.0),
        "silu": without_gradients(lambda: F.silu(x)),
        "cast": without_gradients(lambda: x.float()),
        "cat": without_gradients(lambda: torch.cat([x, y], -1)),
        "linear": without_gradients(lambda: linear(x)),
        "softmax": without_gradients(lambda: F.softmax(x, -1, dtype=torch.float32)),
        "multinomial": without_gradients(lambda: torch.multinomial(wide.abs(), 1), 20),
        "backward mul": lambda: timed_backward(lambda t: t * y, graded),
        "backward silu": lambda: timed_backward(F.silu, graded),
        "backward softmax": lambda: timed_backward(lambda t: F.softmax(t, -1), graded),
        "backward linear": lambda: timed_backward(linear, graded),
        "checkpoint": checkpointed,
        "norm": lambda: timed(lambda: torch.nn.utils.get_total_norm([w.grad for w in weights]), 3) / len(weights),
    }
    for kind, optimizer in steps.items():
        out[f"step {kind}"] = lambda optimizer=optimizer: timed(optimizer.step, 3) / len(weights)
    return out


def processor():
    try:
        with open("/proc/cpuinfo") as f:
            return next(line.split(":")[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def main():
    known, seen = pieces(), {}
    for turn in range(ROUNDS + 1):
        for name, piece in known.items():
            seconds = piece()
            if turn > 0:  # the first pays for first uses
                seen.setdefault(name, []).append(seconds)
    print(json.dumps({"host": processor(), "cores": os.cpu_count(), "gpu": torch.cuda.get_device_name(),
                      "versions": {"pytorch": torch.__version__, "python": platform.python_version()},
                      "seconds": {name: statistics.median(times) for name, times in seen.items()}}))


if __name__ == "__main__":
    main()
