"""Measures what FSDP1 and adapters cost the host, unit by unit and Linear by Linear: figures behind simulator/time.

usage: torchrun --nproc-per-node 2 measure_units.py OUT.json        two GPUs: one rank alone shards nothing

Copies between host and GPU, of one rank alone and of all at once.

Blocks of a small decoder, so small that the host decides. Each is run plain, with a unit of FSDP1 around each block, with
adapters (frozen weights, two products of rank 8 beside each Linear) and with those adapters each in a unit of its own
inside of the block's, as verl wraps them. A unit's cost is the difference of 8 and 2 blocks, over six times the units a
block. Rows are {"part", "what", sizes…, "seconds", "unit"}: the median of several rounds in which the cases take turns
(a host's speed drifts), and what a fixed piece of host work took beside them (measure_times.unit_seconds).
"""
import argparse, functools, json, os, platform, statistics, sys, time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
from torch.distributed.fsdp.wrap import lambda_auto_wrap_policy
from torch.utils.checkpoint import checkpoint

import measure_times

HIDDEN, RANK, ROUNDS = 256, 8, 7


class Adapted(torch.nn.Module):
    """A frozen Linear with an adapter beside it, dispatched as PEFT's Linear does it."""

    def __init__(self, inner, outer):
        super().__init__()
        self.base_layer = torch.nn.Linear(inner, outer, bias=False)
        self.base_layer.weight.requires_grad_(False)
        self.lora_A = torch.nn.ModuleDict({"default": torch.nn.Linear(inner, RANK, bias=False)})
        self.lora_B = torch.nn.ModuleDict({"default": torch.nn.Linear(RANK, outer, bias=False)})
        self.lora_dropout = torch.nn.ModuleDict({"default": torch.nn.Identity()})
        self.on = True

    def forward(self, x):
        out = self.base_layer(x)
        if not self.on:
            return out
        a, b, drop = self.lora_A["default"], self.lora_B["default"], self.lora_dropout["default"]
        return out + b(a(drop(x))) * 2.0


class Block(torch.nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.norm, self.norm2 = torch.nn.LayerNorm(HIDDEN), torch.nn.LayerNorm(HIDDEN)
        self.q, self.k, self.v, self.o = (linear(HIDDEN, HIDDEN) for _ in range(4))
        self.gate, self.up, self.down = linear(HIDDEN, 512), linear(HIDDEN, 512), linear(512, HIDDEN)
        self.recompute = False

    def forward(self, x):
        """Checkpointed inside of its unit, as Transformers' layers are."""
        return checkpoint(self.run, x, use_reentrant=False) if self.recompute and self.training else self.run(x)

    def run(self, x):
        y = self.norm(x)
        q, k, v = (f(y).view(x.shape[0], -1, 4, 64).transpose(1, 2) for f in (self.q, self.k, self.v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Body(torch.nn.Module):
    def __init__(self, blocks, adapters):
        super().__init__()
        linear = Adapted if adapters else functools.partial(torch.nn.Linear, bias=False)
        self.blocks = torch.nn.ModuleList(Block(linear) for _ in range(blocks))
        if adapters:
            for name, parameter in self.named_parameters():
                parameter.requires_grad_("lora_" in name)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def leaf(module):
    weight = getattr(module, "weight", None)
    return not list(module.named_children()) and weight is not None and weight.requires_grad


def wrapped(body, leaves):
    def chosen(module):
        return isinstance(module, Block) or (leaves and leaf(module))
    precision = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, buffer_dtype=torch.float32)
    return FullyShardedDataParallel(body, auto_wrap_policy=functools.partial(lambda_auto_wrap_policy, lambda_fn=chosen),
                                    mixed_precision=precision, device_id=measure_times.DEVICE, use_orig_params=False)


def cases():
    for blocks in (2, 8):
        for adapters in (False, True):
            for sharded in (False, True):
                body = Body(blocks, adapters).to(measure_times.DEVICE)
                model = wrapped(body, adapters) if sharded else body.bfloat16()
                units = sum(isinstance(m, FullyShardedDataParallel) for m in model.modules())
                yield model, body, dict(blocks=blocks, adapters=adapters, sharded=sharded, units=units,
                                        ranks=dist.get_world_size())


def pieces(model, body, note):
    """Seconds of a forward without gradients, of one with, and of its backward; adapters on and off; recomputed."""
    x = torch.randn(2, 32, HIDDEN, device=measure_times.DEVICE, dtype=torch.bfloat16)
    adapted = [m for m in body.modules() if isinstance(m, Adapted)]
    out = {}
    model.eval()
    with torch.no_grad():
        for on in (True, False) if adapted else (True,):
            for module in adapted:
                module.on = on
            out["forward" if on else "forward, adapters off"] = measure_times.wall_seconds(lambda: model(x), 1)
    for module in adapted:
        module.on = True
    model.train()
    for recompute in (False, True):
        for module in body.modules():
            if isinstance(module, Block):
                module.recompute = recompute
        with_gradients = x.clone().requires_grad_(True)
        torch.cuda.synchronize()
        start = time.perf_counter()
        loss = model(with_gradients).float().mean()
        torch.cuda.synchronize()
        middle = time.perf_counter()
        loss.backward()
        torch.cuda.synchronize()
        end = time.perf_counter()
        name = "recomputed" if recompute else "train"
        out[name + " forward"], out[name + " backward"] = middle - start, end - middle
        model.zero_grad(set_to_none=True)
    return out


def peft_linears(rows):
    """PEFT's own Linear beside the plain one, on one rank's GPU, where PEFT is installed."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        return
    def stack(adapters):
        body = torch.nn.Sequential(*[torch.nn.Linear(HIDDEN, HIDDEN, bias=False) for _ in range(16)])
        body = body.to(measure_times.DEVICE).bfloat16()
        if adapters:
            body = get_peft_model(body, LoraConfig(r=RANK, target_modules=[str(i) for i in range(16)]))
        return body
    x = torch.randn(64, HIDDEN, device=measure_times.DEVICE, dtype=torch.bfloat16, requires_grad=True)
    for adapters in (False, True):
        model, forwards, trains, backwards, units = stack(adapters), [], [], [], []
        for _ in range(12):
            units.append(measure_times.unit_seconds())
            with torch.no_grad():
                forwards.append(measure_times.wall_seconds(lambda: model(x), 1))
            torch.cuda.synchronize()
            start = time.perf_counter()
            loss = model(x).float().mean()
            torch.cuda.synchronize()
            middle = time.perf_counter()
            loss.backward()
            torch.cuda.synchronize()
            trains.append(middle - start)
            backwards.append(time.perf_counter() - middle)
        for what, times in (("forward", forwards), ("train forward", trains), ("train backward", backwards)):
            rows.append(dict(part="peft", what=what, adapters=adapters, linears=16, seconds=statistics.median(times[2:]),
                             unit=statistics.median(units)))


def copies(rows):
    """Copies of one rank alone and of all at once, by kind of host memory: what ranks of one node share."""
    size = 2 << 30
    device = torch.ones(size, dtype=torch.uint8, device=measure_times.DEVICE)
    kept = torch.empty(size, dtype=torch.uint8)
    kept.fill_(0)
    pinned = torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def new():
        return device.to("cpu")

    kinds = {"to pageable": lambda: kept.copy_(device), "from pageable": lambda: device.copy_(kept), "to new pageable": new,
             "to pinned": lambda: pinned.copy_(device), "from pinned": lambda: device.copy_(pinned)}
    for what, work in kinds.items():
        for together in (False, True):
            times = []
            for _ in range(4):
                dist.barrier()
                torch.cuda.synchronize()
                if together or dist.get_rank() == 0:
                    times.append(measure_times.wall_seconds(work, 1))
                dist.barrier()
            if dist.get_rank() == 0:
                rows.append(dict(part="copies", what=what, bytes=size, together=dist.get_world_size() if together else 1,
                                 seconds=statistics.median(times[1:])))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    options = parser.parse_args()
    measure_times.DEVICE = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(measure_times.DEVICE)
    dist.init_process_group("nccl", device_id=measure_times.DEVICE)
    rows, seen, units = [], {}, {}
    known = list(cases())
    for turn in range(ROUNDS + 1):
        for number, (model, body, note) in enumerate(known):
            dist.barrier()
            unit = statistics.median(measure_times.unit_seconds() for _ in range(5))
            for what, seconds in pieces(model, body, note).items():
                if turn > 0:  # the first pays for first uses
                    seen.setdefault((number, what), []).append(seconds)
                    units.setdefault((number, what), []).append(unit)
    for (number, what), times in seen.items():
        rows.append(dict(part="units", what=what, **known[number][2], seconds=statistics.median(times), least=min(times),
                         most=max(times), unit=statistics.median(units[number, what])))
    copies(rows)
    dist.barrier()
    if dist.get_rank() == 0:
        peft_linears(rows)
        with open(options.out, "w") as f:
            json.dump({"gpu": torch.cuda.get_device_name(), "host": measure_times.processor(), "cores": os.cpu_count(),
                       "versions": {"pytorch": torch.__version__, "cuda": torch.version.cuda,
                                    "python": platform.python_version()}, "rows": rows}, f)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
