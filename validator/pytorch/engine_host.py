"""What an eager step of a serving engine costs its host, piece by piece: engine_host.py OUT.json

Microseconds of the host a call, with a device that is never waited for (the median of rounds of 200 calls, the queue
drained between rounds): a Triton kernel of many arguments; an operation registered with torch.library around a Python
function; both together as adapters are applied at one product (a buffer, zeroed; shrink; expand); a product and a small
C++ operation to compare with. Shapes are a decode's: 64 tokens, hidden 3584, rank 64.
"""

import json
import platform
import statistics
import sys
import time

import torch
import triton
import triton.language as tl

TOKENS, HIDDEN, RANK = 64, 3584, 64


@triton.jit
def narrow_kernel(x, a, out, m, n, k, order, counts, starts, ids, scale, xs0, xs1, as0, as1, as2, os0, os1, os2,
                  BLOCK: tl.constexpr, STEP: tl.constexpr, EVEN: tl.constexpr, SPLIT: tl.constexpr, GROUP: tl.constexpr,
                  SLICES: tl.constexpr):
    """out[slice, token, :] += scale * x[token] @ a[slice].T, a part of k a program: the shape of a shrink kernel."""
    part = tl.program_id(0) % SPLIT
    token = tl.load(order + tl.program_id(0) // SPLIT)
    rows = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for at in range(part * STEP, k, STEP * SPLIT):
        columns = at + tl.arange(0, STEP)
        inside = columns < k
        left = tl.load(x + token * xs0 + columns * xs1, mask=inside, other=0).to(tl.float32)
        right = tl.load(a + rows[:, None] * as1 + columns[None, :] * as2, mask=inside[None, :], other=0).to(tl.float32)
        total += tl.sum(right * left[None, :], axis=1)
    tl.atomic_add(out + token * os1 + rows * os2, total * scale)


@triton.jit
def widen_kernel(x, b, out, m, n, k, order, counts, starts, ids, offset, xs0, xs1, xs2, bs0, bs1, os0, os1,
                 BLOCK: tl.constexpr, RANKS: tl.constexpr, ADD: tl.constexpr, CAST: tl.constexpr, SLICES: tl.constexpr,
                 SAME: tl.constexpr):
    """out[token, :] += x[token] @ b.T: the shape of an expand kernel."""
    token = tl.load(order + tl.program_id(0))
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    ranks = tl.arange(0, RANKS)
    inside = columns < n
    left = tl.load(x + token * xs1 + ranks * xs2)
    right = tl.load(b + columns[:, None] * bs0 + ranks[None, :] * bs1, mask=inside[:, None], other=0).to(tl.float32)
    at = out + token * os0 + columns * os1
    tl.store(at, tl.load(at, mask=inside) + tl.sum(right * left[None, :], axis=1).to(tl.bfloat16), mask=inside)


CONFIGURATIONS = {}


def configuration(kind, **shape):
    key = tuple(sorted(shape.items()))
    return CONFIGURATIONS.setdefault((kind, key), dict(block=64, step=256, split=8, warps=4, stages=2, group=8))


def check(inputs, weights, out, mapping, order, counts, starts, ids):
    assert inputs.dtype in (torch.bfloat16, torch.float32) and all(w.dtype == torch.bfloat16 for w in weights)
    assert inputs.is_contiguous() and out.is_contiguous()
    assert mapping.size(0) == order.size(0) and ids.size(0) == counts.size(0) and starts.size(0) == ids.size(0) + 1


def shrink(inputs: torch.Tensor, weights: list[torch.Tensor], out: torch.Tensor, mapping: torch.Tensor,
           order: torch.Tensor, counts: torch.Tensor, starts: torch.Tensor, ids: torch.Tensor, none: torch.Tensor,
           active: torch.Tensor, scale: float) -> None:
    if none.item():
        return
    check(inputs, weights, out, mapping, order, counts, starts, ids)
    out.zero_()
    n, k = weights[0].shape[-2:]
    c = configuration("shrink", loras=ids.size(0), batch=inputs.size(0), hidden=k, rank=n, slices=len(weights))
    w = weights[0]
    narrow_kernel[(c["split"] * inputs.size(0), len(weights), active.item())](
        inputs, w, out, inputs.size(0), n, k, order, counts, starts, ids, scale, inputs.stride(0), inputs.stride(1),
        w.stride(0), w.stride(-2), w.stride(-1), out.stride(0), out.stride(1), out.stride(2), c["block"], c["step"],
        k % (c["step"] * c["split"]) == 0, c["split"], c["group"], len(weights), num_warps=c["warps"], num_stages=c["stages"])


def expand(inputs: torch.Tensor, weights: list[torch.Tensor], out: torch.Tensor, mapping: torch.Tensor,
           order: torch.Tensor, counts: torch.Tensor, starts: torch.Tensor, ids: torch.Tensor, none: torch.Tensor,
           active: torch.Tensor, offset: int = 0, add: bool = False) -> None:
    if none.item():
        return
    check(inputs, weights, out, mapping, order, counts, starts, ids)
    w = weights[0]
    n, k = w.shape[-2:]
    c = configuration("expand", loras=ids.size(0), batch=inputs.size(0), hidden=n, rank=k, slices=len(weights))
    widen_kernel[(inputs.size(1), triton.cdiv(n, 64), active.item())](
        inputs, w, out, inputs.size(1), n, k, order, counts, starts, ids, offset, inputs.stride(0), inputs.stride(1),
        inputs.stride(2), w.stride(-2), w.stride(-1), out.stride(0), out.stride(1), 64, k, add, False, len(weights), True,
        num_warps=c["warps"], num_stages=c["stages"])


def nothing(inputs: torch.Tensor, weights: list[torch.Tensor], out: torch.Tensor, mapping: torch.Tensor,
            order: torch.Tensor, counts: torch.Tensor, starts: torch.Tensor, ids: torch.Tensor, none: torch.Tensor,
            active: torch.Tensor, scale: float) -> None:
    return


def registered(library, name, function):
    schema = torch.library.infer_schema(function, mutates_args=["out"])
    library.define(name + schema)
    library.impl(name, function, dispatch_key="CUDA")
    return getattr(torch.ops.measured, name)


def microseconds(call, rounds=15, calls=200):
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    spent = []
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(calls):
            call()
        spent.append((time.perf_counter() - began) / calls * 1e6)
        torch.cuda.synchronize()
    return round(statistics.median(spent), 3)


@torch.inference_mode()
def main():
    library = torch.library.Library("measured", "FRAGMENT")
    narrow, wide, empty = (registered(library, f.__name__, f) for f in (shrink, expand, nothing))
    make = lambda *shape, dtype=torch.bfloat16: torch.ones(*shape, device="cuda", dtype=dtype)
    x, y, weight = make(TOKENS, HIDDEN), make(TOKENS, HIDDEN), make(HIDDEN, HIDDEN)
    a, b = [make(1, 1, RANK, HIDDEN)], [make(1, 1, HIDDEN, RANK)]
    order = torch.arange(TOKENS, device="cuda", dtype=torch.int32)
    two = torch.zeros(2, device="cuda", dtype=torch.int32)
    three = torch.zeros(3, device="cuda", dtype=torch.int32)
    meta = (order, order, two, three, two, torch.tensor([False]), torch.tensor([1]))
    buffer = torch.empty(1, TOKENS, RANK, device="cuda", dtype=torch.float32)

    def adapters():
        flat = y.view(-1, y.shape[-1])
        held = torch.empty((1, x.size(0), RANK), dtype=torch.float32, device=x.device)
        narrow(x.view(-1, x.shape[-1]), a, held, *meta, 1.0)
        wide(held, b, flat, *meta, offset=0, add=True)
        return flat.view_as(y)

    linear = torch.nn.Linear(HIDDEN, HIDDEN, bias=False, device="cuda", dtype=torch.bfloat16)
    figures = {
        "adapters_at_a_product": microseconds(adapters, calls=100),
        "shrink": microseconds(lambda: narrow(x, a, buffer, *meta, 1.0), calls=100),
        "expand": microseconds(lambda: wide(buffer, b, y, *meta, offset=0, add=True), calls=100),
        "shrink_unregistered": microseconds(lambda: shrink(x, a, buffer, *meta, 1.0), calls=100),
        "expand_unregistered": microseconds(lambda: expand(buffer, b, y, *meta, 0, True), calls=100),
        "registered_operation_of_11": microseconds(lambda: empty(x, a, buffer, *meta, 1.0)),
        "linear_module": microseconds(lambda: linear(x)),
        "product": microseconds(lambda: torch.nn.functional.linear(x, weight)),
        "add": microseconds(lambda: torch.add(x, y)),
        "zero": microseconds(buffer.zero_),
        "empty": microseconds(lambda: torch.empty((1, TOKENS, RANK), dtype=torch.float32, device="cuda")),
        "item_on_host": microseconds(meta[-1].item),
    }
    about = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__,
             "python": platform.python_version(),
             "processor": next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if "model name" in l), "")}
    record = {"schema": "headroom.engine_host/1", **about, "microseconds": figures}
    print(json.dumps(record))
    with open(sys.argv[1], "w") as file:
        json.dump(record, file, indent=1)


if __name__ == "__main__":
    main()
