"""Measures what eager PyTorch costs on this machine, host and GPU: the figures behind simulator/time.

usage: measure_times.py OUT.json [--parts host,modules,layers,allocator,copies,products,attention,memory,optimizer,
                                         adam_threads,recording,breakdown]
       PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True measure_times.py OUT.json --parts expandable
       torchrun --nproc-per-node 2 measure_times.py OUT.json --parts groups

Every row is {"part", "what", sizes…, "seconds"}: the median of several repeats. Host rows are the time that Python
spends in a call while the GPU keeps up; GPU rows are times between events on the stream. Random data. One GPU.

A host's speed drifts, by half and more where others share it. So `layers` also says, beside each time, what a fixed
piece of Python and dispatch took just before it (`unit`: unit_seconds); ratios of the two are steadier than seconds.
"""
import argparse, json, os, platform, statistics, sys, time

import torch
import torch.nn.functional as F

DEVICE = torch.device("cuda", 0)
ROWS = []


def add(part, what, seconds, **sizes):
    ROWS.append({"part": part, "what": what, **sizes, "seconds": seconds})


def median(times):
    return statistics.median(times)


# --- Timers

def host_seconds(work, calls=60, repeats=9):
    """Of one call, by the host's clock; the queue is empty before each repeat and never full."""
    for _ in range(3):
        work()
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            work()
        times.append((time.perf_counter() - start) / calls)
    torch.cuda.synchronize()
    return median(times)


def device_seconds(work, repeats=7, calls=None):
    """Of one call on the stream. A spin first lets the host run ahead, so that dispatch is not seen."""
    work()
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    once = max(time.perf_counter() - start, 1e-6)
    calls = calls or max(1, min(40, int(0.01 / once)))
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(int(2e6 + 40e3 * calls))
        begin.record()
        for _ in range(calls):
            work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3 / calls)
    return median(times)


def wall_seconds(work, repeats=5, before=None):
    """From an idle GPU to an idle GPU."""
    times = []
    for _ in range(repeats):
        if before is not None:
            before()
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return median(times)


UNIT = {}


def unit_seconds():
    """A fixed piece of host work: 60 small operations from Python, as eager models dispatch them."""
    if not UNIT:
        UNIT["x"] = torch.randn(4, 64, device=DEVICE)
        UNIT["linear"] = torch.nn.Linear(64, 64, bias=False, device=DEVICE)
    x, linear = UNIT["x"], UNIT["linear"]
    with torch.no_grad():
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(10):
            y = linear(x)
            y = (y * 2.0 + x).view(2, 2, 64).transpose(0, 1)
            y = F.silu(y).contiguous()
            y = torch.cat([y, y], -1)
        return time.perf_counter() - start


# --- Host: Python and dispatch an operation

def host():
    x = torch.randn(4, 64, device=DEVICE, dtype=torch.bfloat16)
    y = torch.randn(4, 64, device=DEVICE, dtype=torch.bfloat16)
    wide = torch.randn(4, 64, device=DEVICE)
    ids = torch.randint(0, 64, (4, 8), device=DEVICE)
    table = torch.randn(64, 64, device=DEVICE, dtype=torch.bfloat16)
    plain = torch.nn.Linear(64, 64, bias=False, device=DEVICE, dtype=torch.bfloat16)
    biased = torch.nn.Linear(64, 64, bias=True, device=DEVICE, dtype=torch.bfloat16)
    norm = torch.nn.LayerNorm(64, device=DEVICE, dtype=torch.bfloat16)
    fp32 = torch.nn.Linear(64, 64, bias=True, device=DEVICE)
    identity = torch.nn.Identity()
    q = torch.randn(2, 4, 16, 64, device=DEVICE, dtype=torch.bfloat16)
    calls = {
        "python call": lambda: None,
        "module": lambda: identity(x),
        "view": lambda: x.transpose(0, 1),
        "reshape": lambda: x.view(2, 2, 64),
        "slice": lambda: x[:, :32],
        "empty": lambda: torch.empty(4, 64, device=DEVICE),
        "add": lambda: x + y,
        "add_": lambda: x.add_(y),
        "mul scalar": lambda: x * 2.0,
        "cast": lambda: x.float(),
        "mean": lambda: wide.mean(-1, keepdim=True),
        "pow": lambda: wide.pow(2),
        "rsqrt": lambda: wide.rsqrt(),
        "silu": lambda: F.silu(x),
        "gelu": lambda: F.gelu(x),
        "cat": lambda: torch.cat([x, y], -1),
        "softmax": lambda: F.softmax(x, -1, dtype=torch.float32),
        "log_softmax": lambda: F.log_softmax(x, -1),
        "embedding": lambda: F.embedding(ids, table),
        "gather": lambda: x.gather(-1, ids),
        "index": lambda: table[ids],
        "layer_norm": lambda: F.layer_norm(x, (64,), norm.weight, norm.bias),
        "linear": lambda: F.linear(x, plain.weight),
        "linear bias": lambda: F.linear(x, biased.weight, biased.bias),
        "Linear module": lambda: plain(x),
        "LayerNorm module": lambda: norm(x),
        "matmul 4d": lambda: q @ q.transpose(2, 3),
        "sdpa": lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True),
        "arange": lambda: torch.arange(16, device=DEVICE),
        "ones_like": lambda: torch.ones_like(ids),
        "compare": lambda: ids == 3,
        "isin": lambda: torch.isin(ids, ids[0]),
        "multinomial": lambda: torch.multinomial(wide.abs(), 1),
        "cumsum": lambda: ids.cumsum(-1),
        "where": lambda: torch.where(ids > 3, ids, 0),
        "contiguous": lambda: q.transpose(1, 2).contiguous(),
        "item": lambda: x[0, 0].item(),
        "synchronize": lambda: torch.cuda.synchronize(),
        "record_stream": lambda: x.record_stream(torch.cuda.current_stream()),
        "from list": lambda: torch.tensor([1], device=DEVICE),
    }
    graded = {"view", "reshape", "slice", "add", "mul scalar", "cast", "mean", "pow", "silu", "gelu", "cat", "softmax",
              "log_softmax", "layer_norm", "linear", "linear bias", "Linear module", "LayerNorm module", "matmul 4d",
              "sdpa", "contiguous", "module", "embedding"}
    for name, call in calls.items():
        with torch.no_grad():
            add("host", name, host_seconds(call), grad=False)
    for t in (x, wide, q, table):
        t.requires_grad_(True)
    for name in graded:
        add("host", name, host_seconds(calls[name]), grad=True)
    with torch.autocast("cuda", torch.bfloat16):
        with torch.no_grad():
            add("host", "autocast linear bias", host_seconds(lambda: fp32(wide)), grad=False)
            add("host", "autocast linear bias, bf16 input", host_seconds(lambda: fp32(x)), grad=False)
        add("host", "autocast linear bias", host_seconds(lambda: fp32(wide)), grad=True)
        add("host", "autocast layer_norm", host_seconds(lambda: F.layer_norm(x, (64,))), grad=True)
    backward_nodes(x, y, norm, plain, biased, q)
    checkpoints()


def backward_nodes(x, y, norm, plain, biased, q):
    """A chain of one operation: the backward pass a node."""
    chain = 40
    steps = {
        "add": lambda t: t + y,
        "mul": lambda t: t * y,
        "silu": lambda t: F.silu(t),
        "cast": lambda t: t.float().bfloat16(),
        "softmax": lambda t: F.softmax(t, -1),
        "layer_norm": lambda t: F.layer_norm(t, (64,), norm.weight, norm.bias),
        "linear": lambda t: F.linear(t, plain.weight),
        "linear bias": lambda t: F.linear(t, biased.weight, biased.bias),
        "view": lambda t: t.view(8, 32).view(4, 64),
        "transpose": lambda t: t.transpose(0, 1).transpose(0, 1),
    }
    for name, step in steps.items():
        def forward():
            t = x
            for _ in range(chain):
                t = step(t)
            return t
        times = []
        for _ in range(9):
            out = forward()
            gradient = torch.ones_like(out)
            torch.cuda.synchronize()
            start = time.perf_counter()
            torch.autograd.backward(out, gradient)
            times.append((time.perf_counter() - start) / chain)
            for p in (norm, plain, biased):
                p.zero_grad(set_to_none=True)
            x.grad = None
        add("host", "backward " + name, median(times))
    times = []
    for _ in range(7):
        t = q
        for _ in range(20):
            t = F.scaled_dot_product_attention(t, q, q, is_causal=True)
        gradient = torch.ones_like(t)
        torch.cuda.synchronize()
        start = time.perf_counter()
        torch.autograd.backward(t, gradient)
        times.append((time.perf_counter() - start) / 20)
        q.grad = None
    add("host", "backward sdpa", median(times))


def checkpoints():
    from torch.utils.checkpoint import checkpoint
    x = torch.randn(4, 64, device=DEVICE, requires_grad=True)
    for name, step in {"plain": lambda t: t * 2.0,
                       "checkpoint": lambda t: checkpoint(lambda u: u * 2.0, t, use_reentrant=False)}.items():
        forwards, backwards = [], []
        for _ in range(7):
            torch.cuda.synchronize()
            start = time.perf_counter()
            t = x
            for _ in range(20):
                t = step(t)
            forwards.append((time.perf_counter() - start) / 20)
            gradient = torch.ones_like(t)
            torch.cuda.synchronize()
            start = time.perf_counter()
            torch.autograd.backward(t, gradient)
            backwards.append((time.perf_counter() - start) / 20)
        add("host", f"segment {name}, forward", median(forwards))
        add("host", f"segment {name}, backward", median(backwards))
    for pinned in (True, False):
        for elements in (1 << 10, 1 << 16, 1 << 20, 1 << 24):
            t = torch.randn(elements, device=DEVICE, dtype=torch.bfloat16)
            hooks = torch.autograd.graph.save_on_cpu(pin_memory=pinned)
            packed = hooks.pack_hook(t)
            add("host", "save_on_cpu pack", wall_seconds(lambda: hooks.pack_hook(t), 9), bytes=2 * elements, pinned=pinned)
            add("host", "save_on_cpu unpack", wall_seconds(lambda: hooks.unpack_hook(packed), 9), bytes=2 * elements,
                pinned=pinned)


# --- Whole layers of Transformers' models, small enough that the host decides

def families(layers, hidden=256, vocabulary=1024):
    from transformers import AutoConfig
    heads = hidden // 64
    wide = dict(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, vocab_size=vocabulary)
    yield "llama", AutoConfig.for_model("llama", intermediate_size=4 * hidden, num_key_value_heads=heads, **wide)
    yield "qwen2", AutoConfig.for_model("qwen2", intermediate_size=4 * hidden, num_key_value_heads=heads, **wide)
    yield "qwen3", AutoConfig.for_model("qwen3", intermediate_size=4 * hidden, num_key_value_heads=heads, head_dim=64,
                                        **wide)
    yield "opt", AutoConfig.for_model("opt", ffn_dim=4 * hidden, word_embed_proj_dim=hidden, **wide)
    yield "gpt_neox", AutoConfig.for_model("gpt_neox", intermediate_size=4 * hidden, **wide)
    yield "gpt2", AutoConfig.for_model("gpt2", n_embd=hidden, n_layer=layers, n_head=heads, vocab_size=vocabulary)


def layers(rounds=5):
    """Every case several times in turn: a host's speed drifts."""
    from transformers import AutoModelForCausalLM
    torch.backends.cuda.matmul.allow_tf32 = True
    cases = [("bf16", torch.bfloat16, False, False, "sdpa"), ("amp", torch.float32, True, False, "sdpa"),
             ("checkpoint", torch.bfloat16, False, True, "sdpa"), ("eager attention", torch.bfloat16, False, False, "eager")]
    models = []
    for count in (2, 8):
        for family, config in families(count):
            for name, dtype, autocast, recompute, attention in cases:
                if name == "eager attention" and family not in ("gpt_neox", "llama"):
                    continue
                with torch.device(DEVICE):
                    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=attention)
                note = dict(family=family, case=name, layers=count, parameters=len(list(model.parameters())))
                models.append((model, note, autocast, recompute))
    times, ratios, units = {}, {}, {}
    for turn in range(rounds + 1):
        for model, note, autocast, recompute in models:
            unit = median([unit_seconds() for _ in range(5)])
            seen = layer_times(model, autocast, recompute)
            if note["case"] in ("bf16", "amp") and note["family"] in ("llama", "opt"):
                seen.update(steps(model))
            unit = (unit + median([unit_seconds() for _ in range(5)])) / 2
            for what, seconds in seen.items():
                if turn > 0:
                    at = (what, *note.items())
                    times.setdefault(at, []).append(seconds)
                    ratios.setdefault(at, []).append(seconds / unit)
                    units.setdefault(at, []).append(unit)
    for at, seconds in times.items():
        what, *note = at
        add("layers", what, median(seconds), **dict(note), least=min(seconds), most=max(seconds),
            units=median(ratios[at]), least_units=min(ratios[at]), most_units=max(ratios[at]), unit=median(units[at]))


def layer_times(model, autocast, recompute):
    ids = torch.randint(5, 1000, (2, 32), device=DEVICE)
    out = {}

    def tokens(n):
        torch.cuda.synchronize()
        start = time.perf_counter()
        model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=True, top_k=0, min_new_tokens=n, max_new_tokens=n,
                       pad_token_id=1, eos_token_id=1023, use_cache=True)
        torch.cuda.synchronize()
        return time.perf_counter() - start
    model.eval()
    model.gradient_checkpointing_disable()
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=autocast):
        if not recompute:
            out["forward"] = wall_seconds(lambda: [model(input_ids=ids, use_cache=False).logits for _ in range(3)], 1) / 3
            out["generate start"] = tokens(2)
            out["generate token"] = (tokens(10) - out["generate start"]) / 8
    model.train()
    if recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    torch.cuda.synchronize()
    start = time.perf_counter()
    with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
        loss = model(input_ids=ids, use_cache=False).logits.float().mean()
    out["train forward"] = time.perf_counter() - start
    torch.cuda.synchronize()
    start = time.perf_counter()
    loss.backward()
    out["backward"] = time.perf_counter() - start
    model.zero_grad(set_to_none=True)
    return out


def modules():
    """What walks a model's modules and parameters, an element of them."""
    from transformers import AutoModelForCausalLM
    for family, config in families(8):
        if family not in ("llama", "opt"):
            continue
        with torch.device(DEVICE):
            model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        count, parameters = len(list(model.modules())), len(list(model.parameters()))
        note = dict(family=family, modules=count, parameters=parameters)
        walks = {"mode": lambda: (model.eval(), model.train()), "parameters": lambda: list(model.parameters()),
                 "to, nothing moves": lambda: model.to(DEVICE)}
        for name, walk in walks.items():
            add("modules", name, host_seconds(walk, 20, 7), **note, unit=unit_seconds())
        for name, place in (("to host", "cpu"), ("to device", DEVICE)):
            times = []
            for _ in range(5):
                model.to(DEVICE if place == "cpu" else "cpu")
                times.append(wall_seconds(lambda: model.to(place), 1))
            add("modules", name, median(times), **note, bytes=2 * sum(p.numel() for p in model.parameters()))
        times = []
        for _ in range(5):
            for p in model.parameters():
                p.grad = torch.ones_like(p)
            start = time.perf_counter()
            model.zero_grad(set_to_none=True)
            times.append(time.perf_counter() - start)
        add("modules", "zero_grad", median(times), **note)


def tokens():
    """A token of `generate` by layers and context: the cache is concatenated anew each time."""
    from transformers import AutoModelForCausalLM
    for family, config in families(8):
        if family not in ("llama", "opt"):
            continue
        with torch.device(DEVICE):
            model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
        for context in (16, 512, 1900):
            ids = torch.randint(5, 1000, (2, context), device=DEVICE)

            def generate(n):
                torch.cuda.synchronize()
                start = time.perf_counter()
                with torch.no_grad():
                    model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=True, top_k=0, min_new_tokens=n,
                                   max_new_tokens=n, pad_token_id=1, eos_token_id=1023, use_cache=True)
                torch.cuda.synchronize()
                return time.perf_counter() - start
            generate(4)
            first = median([generate(2) for _ in range(3)])
            many = median([generate(34) for _ in range(3)])
            add("tokens", "start", first, family=family, layers=8, context=context, unit=unit_seconds())
            add("tokens", "token", (many - first) / 32, family=family, layers=8, context=context, unit=unit_seconds())


def adam_threads():
    """An optimizer on the host by threads."""
    for count, elements in ((8, 1 << 22), (64, 1 << 18)):
        ps = [torch.nn.Parameter(torch.randn(elements)) for _ in range(count)]
        for p in ps:
            p.grad = torch.randn_like(p)
        for threads in (1, 2, 4, 8, 16, 32):
            if threads > (os.cpu_count() or 1):
                break
            torch.set_num_threads(threads)
            for kind, options in {"foreach": dict(foreach=True), "fused": dict(fused=True)}.items():
                o = torch.optim.AdamW(ps, lr=1e-6, **options)
                o.step()
                add("adam_threads", kind, wall_seconds(o.step, 3), parameters=count, elements=elements, threads=threads)
            add("adam_threads", "clip", wall_seconds(lambda: torch.nn.utils.clip_grad_norm_(ps, 1.0), 3),
                parameters=count, elements=elements, threads=threads)


def breakdown():
    """Kernels of whole passes of larger models, by name: what a pass's seconds on the device are made of."""
    from torch.profiler import ProfilerActivity, profile
    from transformers import AutoConfig, AutoModelForCausalLM
    shapes = {
        "llama-1b": ("llama", dict(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
                                   num_attention_heads=32, num_key_value_heads=8, tie_word_embeddings=True, head_dim=64)),
        "opt-1.3b": ("opt", dict(vocab_size=50272, hidden_size=2048, ffn_dim=8192, num_hidden_layers=24,
                                 num_attention_heads=32, max_position_embeddings=2048, word_embed_proj_dim=2048)),
        "gpt2-medium": ("gpt2", dict(vocab_size=50257, n_embd=1024, n_layer=24, n_head=16)),
        "qwen2-1.5b": ("qwen2", dict(vocab_size=151936, hidden_size=1536, intermediate_size=8960, num_hidden_layers=28,
                                     num_attention_heads=12, num_key_value_heads=2, tie_word_embeddings=True)),
    }
    for name, (family, sizes) in shapes.items():
        for dtype, autocast in ((torch.bfloat16, False), (torch.float32, True)):
            with torch.device(DEVICE):
                model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **sizes), dtype=dtype)
            for p in model.parameters():
                p.requires_grad_(True)
            ids = torch.randint(5, 50000, (4, 1024), device=DEVICE)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, foreach=True)

            def forward():
                with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=autocast):
                    out = model(input_ids=ids, use_cache=False).logits[:, :-1]
                    F.log_softmax(out, -1).gather(-1, ids[:, 1:, None])

            def train():
                with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
                    out = model(input_ids=ids, use_cache=False).logits[:, :-1]
                F.log_softmax(out, -1).gather(-1, ids[:, 1:, None]).float().mean().backward()

            def step():
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
            for what, work in (("forward", forward), ("train", train), ("step", step)):
                work()
                if what == "train":
                    optimizer.zero_grad(set_to_none=True)
                    work()
                seconds = wall_seconds(work, 3)
                note = dict(model=name, autocast=autocast, tokens=4096)
                add("breakdown", what, seconds, **note)
                torch.cuda.synchronize()
                with profile(activities=[ProfilerActivity.CUDA]) as seen:
                    work()
                    torch.cuda.synchronize()
                kernels = {}
                for event in seen.events():
                    if event.device_type == torch.autograd.DeviceType.CUDA:
                        entry = kernels.setdefault(event.name[:150], [0, 0.0])
                        entry[0] += 1
                        entry[1] += event.time_range.elapsed_us()
                for kernel, (count, us) in sorted(kernels.items(), key=lambda item: -item[1][1])[:40]:
                    add("breakdown", what + " kernel", us / 1e6, **note, kernel=kernel, count=count)
                add("breakdown", what + " kernels", sum(us for _, us in kernels.values()) / 1e6, **note,
                    count=sum(count for count, _ in kernels.values()))
            del model, optimizer
            torch.cuda.empty_cache()


def steps(model):
    """The optimizer's host time, by implementation."""
    out = {}
    for name, options in {"foreach": dict(foreach=True), "fused": dict(fused=True), "loop": dict(foreach=False)}.items():
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, **options)
        for _ in range(2):
            for p in model.parameters():
                p.grad = torch.ones_like(p)
            torch.cuda.synchronize()
            start = time.perf_counter()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            out["clip"] = time.perf_counter() - start
            torch.cuda.synchronize()
            start = time.perf_counter()
            optimizer.step()
            out["step " + name] = time.perf_counter() - start
            optimizer.zero_grad(set_to_none=True)
    return out


# --- The allocator's driver calls

def allocator():
    mib = 1 << 20
    for size in (2, 20, 64, 256, 1024, 4096, 16384):
        gets, returns = [], []
        for _ in range(5):
            torch.cuda.empty_cache()
            torch.cuda.synchronize()
            start = time.perf_counter()
            x = torch.empty(size * mib, dtype=torch.uint8, device=DEVICE)
            gets.append(time.perf_counter() - start)
            del x
            torch.cuda.synchronize()
            start = time.perf_counter()
            torch.cuda.empty_cache()
            returns.append(time.perf_counter() - start)
        add("allocator", "get", median(gets), bytes=size * mib)
        add("allocator", "return", median(returns), bytes=size * mib)
    for size, count in ((2, 64), (20, 64), (128, 32)):
        gets, returns = [], []
        for _ in range(3):
            torch.cuda.synchronize()
            start = time.perf_counter()
            xs = [torch.empty(size * mib, dtype=torch.uint8, device=DEVICE) for _ in range(count)]
            gets.append((time.perf_counter() - start) / count)
            del xs
            torch.cuda.synchronize()
            start = time.perf_counter()
            torch.cuda.empty_cache()
            returns.append((time.perf_counter() - start) / count)
        add("allocator", "get one of many", median(gets), bytes=size * mib, count=count)
        add("allocator", "return one of many", median(returns), bytes=size * mib, count=count)
    # With work in the queue: does getting a segment wait for it?
    for what in ("get", "return"):
        times = []
        for _ in range(5):
            torch.cuda.empty_cache()
            held = torch.empty(64 * mib, dtype=torch.uint8, device=DEVICE)
            if what == "return":
                del held
            torch.cuda.synchronize()
            torch.cuda._sleep(20_000_000)
            start = time.perf_counter()
            if what == "get":
                more = torch.empty(256 * mib, dtype=torch.uint8, device=DEVICE)
                del more
            else:
                torch.cuda.empty_cache()
            times.append(time.perf_counter() - start)
            torch.cuda.synchronize()
        add("allocator", f"{what} behind 20e6 cycles of work", median(times))
    start = time.perf_counter()
    torch.cuda._sleep(20_000_000)
    torch.cuda.synchronize()
    add("allocator", "20e6 cycles of work", time.perf_counter() - start)


def expandable():
    """Runs in a process whose allocator has expandable segments."""
    mib = 1 << 20
    for size in (2, 20, 64, 256, 1024, 4096):
        gets, returns = [], []
        for _ in range(4):
            torch.cuda.empty_cache()
            torch.cuda.synchronize()
            start = time.perf_counter()
            x = torch.empty(size * mib, dtype=torch.uint8, device=DEVICE)
            gets.append(time.perf_counter() - start)
            del x
            torch.cuda.synchronize()
            start = time.perf_counter()
            torch.cuda.empty_cache()
            returns.append(time.perf_counter() - start)
        add("allocator", "map", median(gets), bytes=size * mib)
        add("allocator", "unmap", median(returns), bytes=size * mib)


# --- Copies

def copies():
    for size in (1 << 12, 1 << 16, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28, 1 << 30):
        x = torch.randint(0, 127, (size,), dtype=torch.uint8, device=DEVICE)
        repeats = 7 if size < 1 << 26 else 3
        add("copies", "to new pageable", wall_seconds(lambda: x.to("cpu"), repeats), bytes=size)
        kept = [x.to("cpu")]
        add("copies", "to pageable", wall_seconds(lambda: kept[0].copy_(x), repeats), bytes=size)
        add("copies", "from pageable", wall_seconds(lambda: kept[0].to(DEVICE), repeats), bytes=size)
        fresh = []
        if size <= 1 << 28:
            start = time.perf_counter()
            many = [x.to("cpu") for _ in range(4)]
            add("copies", "to new pageable, kept", (time.perf_counter() - start) / 4, bytes=size)
            start = time.perf_counter()
            del many
            add("copies", "free pageable", (time.perf_counter() - start) / 4, bytes=size)
        times = []
        start = time.perf_counter()
        pinned = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        add("copies", "pin new", time.perf_counter() - start, bytes=size)
        add("copies", "to pinned", wall_seconds(lambda: pinned.copy_(x, non_blocking=True), repeats), bytes=size)
        add("copies", "from pinned", wall_seconds(lambda: x.copy_(pinned, non_blocking=True), repeats), bytes=size)
        add("copies", "to pinned, blocking", wall_seconds(lambda: pinned.copy_(x), repeats), bytes=size)
        add("copies", "on host", wall_seconds(lambda: kept[0].clone(), repeats), bytes=size)
        del x, kept, pinned
        torch.cuda.empty_cache()
        torch._C._host_emptyCache() if hasattr(torch._C, "_host_emptyCache") else None


# --- Kernels

def products():
    torch.backends.cuda.matmul.allow_tf32 = True
    sides = [(768, 768), (768, 3072), (3072, 768), (896, 896), (896, 128), (896, 4864), (4864, 896), (1024, 1024),
             (1024, 4096), (1536, 1536), (1536, 8960), (8960, 1536), (2048, 2048), (2048, 8192), (8192, 2048), (4096, 4096),
             (4096, 11008), (4096, 14336), (14336, 4096), (5120, 5120), (8192, 8192), (896, 151936), (2048, 128256),
             (2048, 50272), (4096, 152064)]
    rows = [1, 4, 8, 32, 128, 512, 1024, 2048, 4096, 8192]
    for k, n in sides:
        for m in rows:
            if m * n > 1 << 30 or (n > 100000 and m > 4096):
                continue
            a = torch.randn(m, k, device=DEVICE, dtype=torch.bfloat16)
            w = torch.randn(n, k, device=DEVICE, dtype=torch.bfloat16)
            add("products", "forward", device_seconds(lambda: F.linear(a, w), 5), m=m, n=n, k=k, dtype="bf16")
            if m >= 512 and k in (896, 1536, 2048, 4096):
                g = torch.randn(m, n, device=DEVICE, dtype=torch.bfloat16)
                add("products", "input gradient", device_seconds(lambda: g @ w, 5), m=m, n=k, k=n, dtype="bf16")
                add("products", "weight gradient", device_seconds(lambda: g.t() @ a, 5), m=n, n=k, k=m, dtype="bf16")
    for dtype, name in ((torch.float32, "tf32"), (torch.float16, "fp16")):
        for k, n in ((1024, 1024), (1024, 4096), (4096, 4096), (1024, 50304)):
            for m in (8, 512, 2048, 8192):
                a = torch.randn(m, k, device=DEVICE, dtype=dtype)
                w = torch.randn(n, k, device=DEVICE, dtype=dtype)
                add("products", "forward", device_seconds(lambda: F.linear(a, w), 5), m=m, n=n, k=k, dtype=name)
    torch.backends.cuda.matmul.allow_tf32 = False
    for k, n in ((1024, 1024), (4096, 4096)):
        for m in (8, 512, 2048, 8192):
            a, w = torch.randn(m, k, device=DEVICE), torch.randn(n, k, device=DEVICE)
            add("products", "forward", device_seconds(lambda: F.linear(a, w), 5), m=m, n=n, k=k, dtype="fp32")
    for b, m, n, k in ((64, 512, 512, 64), (64, 512, 64, 512), (64, 1, 512, 64), (128, 1024, 1024, 64), (32, 1024, 1024, 128)):
        x = torch.randn(b, m, k, device=DEVICE, dtype=torch.bfloat16)
        y = torch.randn(b, k, n, device=DEVICE, dtype=torch.bfloat16)
        add("products", "batched", device_seconds(lambda: x @ y, 5), batch=b, m=m, n=n, k=k, dtype="bf16")


def attention():
    for b, h, kv, length, d in ((8, 12, 12, 256, 64), (8, 16, 16, 256, 64), (4, 32, 32, 512, 64), (4, 32, 8, 512, 64),
                                (4, 14, 2, 512, 64), (8, 32, 32, 1024, 64), (4, 32, 8, 1024, 64), (4, 12, 2, 1024, 128),
                                (4, 32, 8, 1024, 128), (4, 32, 8, 2048, 128), (1, 32, 8, 4096, 128), (1, 32, 8, 16384, 128)):
        q = torch.randn(b, h, length, d, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
        k = torch.randn(b, kv, length, d, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
        v = torch.randn(b, kv, length, d, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
        run = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=h != kv)
        note = dict(batch=b, heads=h, kv_heads=kv, length=length, dim=d)
        with torch.no_grad():
            add("attention", "forward", device_seconds(run, 5), **note)
        out = run()
        g = torch.randn_like(out)
        both = device_seconds(lambda: torch.autograd.backward(run(), g), 5)
        add("attention", "forward and backward", both, **note)
        if length <= 1024:
            mask = torch.ones(b, 1, length, length, dtype=torch.bool, device=DEVICE).tril()
            kk, vv = k.detach().repeat_interleave(h // kv, 1), v.detach().repeat_interleave(h // kv, 1)
            with torch.no_grad():
                add("attention", "forward masked", device_seconds(
                    lambda: F.scaled_dot_product_attention(q, kk, vv, attn_mask=mask), 5), **note)
    for b, h, length, d in ((8, 32, 300, 64), (8, 32, 1000, 64), (8, 32, 1000, 128)):
        q = torch.randn(b, h, 1, d, device=DEVICE, dtype=torch.bfloat16)
        k = torch.randn(b, h, length, d, device=DEVICE, dtype=torch.bfloat16)
        add("attention", "one query", device_seconds(lambda: F.scaled_dot_product_attention(q, k, k), 5), batch=b, heads=h,
            length=length, dim=d)


def memory():
    from torch.nn.functional import cross_entropy, log_softmax
    for elements in (1 << 12, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28):
        for dtype, name in ((torch.bfloat16, "bf16"), (torch.float32, "fp32")):
            size = 2 if name == "bf16" else 4
            x, y = (torch.randn(elements, device=DEVICE).to(dtype) for _ in range(2))
            add("memory", "add", device_seconds(lambda: x + y, 5), bytes=3 * size * elements, dtype=name)
            add("memory", "silu", device_seconds(lambda: F.silu(x), 5), bytes=2 * size * elements, dtype=name)
            add("memory", "mul_", device_seconds(lambda: x.mul_(1.0), 5), bytes=2 * size * elements, dtype=name)
            add("memory", "cast", device_seconds(lambda: x.to(torch.float32 if size == 2 else torch.bfloat16), 5),
                bytes=6 * elements, dtype=name)
            add("memory", "copy", device_seconds(lambda: y.copy_(x), 5), bytes=2 * size * elements, dtype=name)
            add("memory", "fill", device_seconds(lambda: y.zero_(), 5), bytes=size * elements, dtype=name)
            add("memory", "sum", device_seconds(lambda: x.sum(), 5), bytes=size * elements, dtype=name)
            if elements >= 1 << 16:
                m = x.view(-1, 1024)
                w = torch.randn(1024, device=DEVICE).to(dtype)
                add("memory", "layer_norm", device_seconds(lambda: F.layer_norm(m, (1024,), w, w), 5),
                    bytes=2 * size * elements, dtype=name)
                add("memory", "mean rows", device_seconds(lambda: m.mean(-1, keepdim=True), 5), bytes=size * elements,
                    dtype=name)
                t = x.view(64, -1, 32)
                add("memory", "permute", device_seconds(lambda: t.transpose(0, 1).contiguous(), 5),
                    bytes=2 * size * elements, dtype=name)
                add("memory", "cat", device_seconds(lambda: torch.cat([x, y]), 5), bytes=4 * size * elements, dtype=name)
                mg, wg = m.detach().requires_grad_(), w.detach().requires_grad_()
                out = F.layer_norm(mg, (1024,), wg, wg)
                g = torch.randn_like(out)
                add("memory", "layer_norm backward", device_seconds(
                    lambda: torch.autograd.grad(out, (mg, wg), g, retain_graph=True), 5), bytes=3 * size * elements,
                    dtype=name)
    for rows in (8, 128, 1024, 4096):
        for vocabulary in (50272, 151936):
            for dtype, name in ((torch.bfloat16, "bf16"), (torch.float32, "fp32")):
                size = 2 if name == "bf16" else 4
                x = torch.randn(rows, vocabulary, device=DEVICE).to(dtype).requires_grad_()
                y = torch.randint(0, vocabulary, (rows,), device=DEVICE)
                note = dict(rows=rows, columns=vocabulary, dtype=name)
                b = size * rows * vocabulary
                with torch.no_grad():
                    add("memory", "log_softmax", device_seconds(lambda: log_softmax(x, -1), 5), bytes=2 * b, **note)
                    add("memory", "softmax", device_seconds(lambda: F.softmax(x, -1, dtype=torch.float32), 5),
                        bytes=b + 4 * rows * vocabulary, **note)
                    add("memory", "logsumexp", device_seconds(lambda: torch.logsumexp(x, -1), 5), bytes=b, **note)
                    add("memory", "gather", device_seconds(lambda: x.gather(-1, y[:, None]), 5), bytes=size * rows, **note)
                    add("memory", "max", device_seconds(lambda: x.max(), 5), bytes=b, **note)
                    add("memory", "argmax", device_seconds(lambda: x.argmax(-1), 5), bytes=b, **note)
                    if rows <= 128:
                        p = F.softmax(x, -1, dtype=torch.float32)
                        add("memory", "multinomial", device_seconds(lambda: torch.multinomial(p, 1), 5),
                            bytes=4 * rows * vocabulary, **note)
                        add("memory", "sort", device_seconds(lambda: x.sort(-1), 3), bytes=b, **note)
                out = log_softmax(x, -1)
                g = torch.randn_like(out)
                add("memory", "log_softmax backward", device_seconds(
                    lambda: torch.autograd.grad(out, x, g, retain_graph=True), 5), bytes=3 * b, **note)
                del out, g
                loss = cross_entropy(x, y, reduction="none")
                g = torch.randn_like(loss)
                with torch.no_grad():
                    add("memory", "cross_entropy", device_seconds(lambda: cross_entropy(x, y, reduction="none"), 5),
                        bytes=2 * b, **note)
                add("memory", "cross_entropy backward", device_seconds(
                    lambda: torch.autograd.grad(loss, x, g, retain_graph=True), 5), bytes=3 * b, **note)
                picked = x.gather(-1, y[:, None])
                g = torch.randn_like(picked)
                add("memory", "gather backward", device_seconds(
                    lambda: torch.autograd.grad(picked, x, g, retain_graph=True), 5), bytes=b, **note)
    for tokens in (64, 1024, 4096):
        for vocabulary, width in ((50272, 2048), (151936, 896)):
            table = torch.randn(vocabulary, width, device=DEVICE, dtype=torch.bfloat16).requires_grad_()
            ids = torch.randint(0, vocabulary, (tokens,), device=DEVICE)
            with torch.no_grad():
                add("memory", "embedding", device_seconds(lambda: F.embedding(ids, table), 5), rows=tokens, columns=width,
                    table=vocabulary)
            out = F.embedding(ids, table)
            g = torch.randn_like(out)
            add("memory", "embedding backward", device_seconds(
                lambda: torch.autograd.grad(out, table, g, retain_graph=True), 5), rows=tokens, columns=width,
                table=vocabulary)


def optimizer():
    for dtype, name in ((torch.bfloat16, "bf16"), (torch.float32, "fp32")):
        for count, elements in ((16, 1 << 24), (300, 1 << 16)):
            ps = [torch.nn.Parameter(torch.randn(elements, device=DEVICE, dtype=dtype)) for _ in range(count)]
            for p in ps:
                p.grad = torch.randn_like(p)
            note = dict(parameters=count, elements=elements, dtype=name)
            for kind, options in {"foreach": dict(foreach=True), "fused": dict(fused=True),
                                  "loop": dict(foreach=False)}.items():
                o = torch.optim.AdamW(ps, lr=1e-6, **options)
                o.step()
                add("optimizer", kind, wall_seconds(o.step, 5), **note)
            add("optimizer", "clip", wall_seconds(lambda: torch.nn.utils.clip_grad_norm_(ps, 1.0), 5), **note)
            del ps, o
    ps = [torch.nn.Parameter(torch.randn(1 << 22)) for _ in range(8)]
    for p in ps:
        p.grad = torch.randn_like(p)
    for kind, options in {"host foreach": dict(foreach=True), "host fused": dict(fused=True),
                          "host loop": dict(foreach=False)}.items():
        o = torch.optim.AdamW(ps, lr=1e-6, **options)
        o.step()
        add("optimizer", kind, wall_seconds(o.step, 3), parameters=8, elements=1 << 22, dtype="fp32",
            threads=torch.get_num_threads())
    add("optimizer", "host clip", wall_seconds(lambda: torch.nn.utils.clip_grad_norm_(ps, 1.0), 3), parameters=8,
        elements=1 << 22, dtype="fp32")


def recording():
    """What memory history costs an allocation, from within a model's frames."""
    x = torch.randn(64, device=DEVICE)

    def deep(n):
        return deep(n - 1) if n else x + 1
    plain = host_seconds(lambda: deep(12))
    for name, options in {"plain": dict(context=None), "frames": dict(context="alloc", stacks="all")}.items():
        torch.cuda.memory._record_memory_history(enabled="all", max_entries=1_000_000, **options)
        add("recording", name, host_seconds(lambda: deep(12), 60, 15) - plain)
        torch.cuda.memory._record_memory_history(enabled=None)
    recording_models()


def recording_models():
    """The same in models: a pass and some tokens with and without history, in turn, and their allocations."""
    from transformers import AutoModelForCausalLM
    for family, config in families(2):
        with torch.device(DEVICE):
            model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        ids = torch.randint(5, 1000, (2, 32), device=DEVICE)

        def forward():
            with torch.no_grad():
                model(input_ids=ids, use_cache=False)

        def train():
            model(input_ids=ids, use_cache=False).logits.float().mean().backward()
            model.zero_grad(set_to_none=True)

        def generate():
            with torch.no_grad():
                model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=True, top_k=0, min_new_tokens=4,
                               max_new_tokens=4, pad_token_id=1, eos_token_id=1023, use_cache=True)
        for what, work in (("forward", forward), ("train", train), ("generate", generate)):
            work()
            before = torch.cuda.memory_stats()["allocation.all.allocated"]
            work()
            count = torch.cuda.memory_stats()["allocation.all.allocated"] - before
            times = {}
            for _ in range(4):
                for name, options in {"off": None, "plain": dict(context=None),
                                      "frames": dict(context="alloc", stacks="all")}.items():
                    if options is not None:
                        torch.cuda.memory._record_memory_history(enabled="all", max_entries=1_000_000, **options)
                    first = wall_seconds(work, 1)
                    times.setdefault(name, []).append(wall_seconds(work, 1))
                    times.setdefault(name + ", first", []).append(first)
                    torch.cuda.memory._record_memory_history(enabled=None)
            for name, seconds in times.items():
                add("recording", f"{what}, {name}", median(seconds), family=family, allocations=count,
                    unit=unit_seconds())


def groups():
    """Under torchrun: collectives by size, and what FSDP2 adds to a layer."""
    import torch.distributed as dist
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from transformers import AutoModelForCausalLM
    global DEVICE
    DEVICE = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl", device_id=DEVICE)
    ranks = dist.get_world_size()
    for size in (1 << 12, 1 << 16, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28, 1 << 30):
        whole = torch.ones(size // 2, device=DEVICE, dtype=torch.bfloat16)
        part = torch.ones(size // 2 // ranks, device=DEVICE, dtype=torch.bfloat16)
        calls = {"all_reduce": lambda: dist.all_reduce(whole),
                 "all_gather": lambda: dist.all_gather_into_tensor(whole, part),
                 "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole),
                 "broadcast": lambda: dist.broadcast(whole, 0)}
        for name, call in calls.items():
            add("groups", name, device_seconds(call, 5, 10), bytes=size, ranks=ranks)
            if size == 1 << 12:
                add("groups", name + ", host", host_seconds(call, 30, 5), ranks=ranks)
    for count in (2, 8):
        for family, config in families(count):
            if family not in ("qwen2", "llama", "opt"):
                continue
            for wrapped in (False, True):
                for recompute in (False, True):
                    with torch.device(DEVICE):
                        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32 if wrapped else torch.bfloat16)
                    if recompute:
                        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
                    if wrapped:
                        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
                        layers_of = model.model.decoder.layers if family == "opt" else model.model.layers
                        for layer in layers_of:
                            fully_shard(layer, mp_policy=policy)
                        fully_shard(model, mp_policy=policy)
                    ids = torch.randint(5, 1000, (2, 32), device=DEVICE)
                    forwards, trains, clips, moves = [], [], [], []
                    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, foreach=True)
                    for _ in range(6):
                        model.eval()
                        with torch.no_grad():
                            forwards.append(wall_seconds(lambda: model(input_ids=ids, use_cache=False).logits, 1))
                        model.train()
                        trains.append(wall_seconds(
                            lambda: model(input_ids=ids, use_cache=False).logits.float().mean().backward(), 1))
                        clips.append(wall_seconds(lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0), 1))
                        moves.append(wall_seconds(optimizer.step, 1))
                        optimizer.zero_grad(set_to_none=True)
                    note = dict(family=family, layers=count, fsdp=wrapped, recompute=recompute,
                                parameters=len(list(model.parameters())), ranks=ranks)
                    add("groups", "forward", median(forwards[1:]), **note)
                    add("groups", "forward and backward", median(trains[1:]), **note)
                    add("groups", "clip", median(clips[1:]), **note)
                    add("groups", "step", median(moves[1:]), **note)
    dist.barrier()
    dist.destroy_process_group()


def flat_units():
    """Under torchrun: what FSDP1 adds to a unit, of a whole layer and of a single small Linear."""
    import functools
    import torch.distributed as dist
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
    from torch.distributed.fsdp.wrap import lambda_auto_wrap_policy, size_based_auto_wrap_policy  # noqa: F401
    from transformers import AutoModelForCausalLM
    global DEVICE
    DEVICE = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(DEVICE)
    if not dist.is_initialized():
        dist.init_process_group("nccl", device_id=DEVICE)
    precision = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, buffer_dtype=torch.float32)
    for count in (2, 8):
        for family, config in families(count):
            if family not in ("qwen2", "llama"):
                continue
            for wrapped in ("none", "layers", "linears"):
                with torch.device(DEVICE):
                    model = AutoModelForCausalLM.from_config(
                        config, dtype=torch.bfloat16 if wrapped == "none" else torch.float32)
                if wrapped != "none":
                    layer = type(model.model.layers[0])
                    kinds = (layer,) if wrapped == "layers" else (layer, torch.nn.Linear)
                    policy = functools.partial(lambda_auto_wrap_policy,
                                               lambda_fn=lambda m: isinstance(m, kinds) and m is not model.lm_head)
                    model = FullyShardedDataParallel(model, auto_wrap_policy=policy, mixed_precision=precision,
                                                     device_id=DEVICE, forward_prefetch=False)
                ids = torch.randint(5, 1000, (2, 32), device=DEVICE)
                forwards, trains = [], []
                for _ in range(6):
                    model.eval()
                    with torch.no_grad():
                        forwards.append(wall_seconds(lambda: model(input_ids=ids, use_cache=False).logits, 1))
                    model.train()
                    trains.append(wall_seconds(
                        lambda: model(input_ids=ids, use_cache=False).logits.float().mean().backward(), 1))
                    model.zero_grad(set_to_none=True)
                units = sum(isinstance(m, FullyShardedDataParallel) for m in model.modules())
                note = dict(family=family, layers=count, wrapped=wrapped, units=units, ranks=dist.get_world_size())
                add("flat_units", "forward", median(forwards[1:]), **note, unit=unit_seconds())
                add("flat_units", "forward and backward", median(trains[1:]), **note, unit=unit_seconds())
    dist.barrier()


PARTS = dict(host=host, flat_units=flat_units, modules=modules, tokens=tokens, adam_threads=adam_threads, breakdown=breakdown, layers=layers,
             allocator=allocator, copies=copies, products=products, attention=attention,
             memory=memory, optimizer=optimizer, recording=recording, expandable=expandable, groups=groups)


def processor():
    try:
        with open("/proc/cpuinfo") as f:
            return next(line.split(":")[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--parts", default=",".join(p for p in PARTS if p not in ("expandable", "groups", "flat_units")))
    options = parser.parse_args()
    torch.cuda.init()
    (torch.randn(512, 512, device=DEVICE) @ torch.randn(512, 512, device=DEVICE)).sum().item()
    versions = {"pytorch": torch.__version__, "cuda": torch.version.cuda, "python": platform.python_version()}
    try:
        import transformers
        transformers.logging.set_verbosity_error()
        versions["transformers"] = transformers.__version__
    except ImportError:
        pass
    took = {}
    for part in options.parts.split(","):
        start = time.perf_counter()
        try:
            PARTS[part]()
        except Exception as error:  # one part must not cost the others
            ROWS.append({"part": part, "error": f"{type(error).__name__}: {error}"[:300]})
        took[part] = round(time.perf_counter() - start, 1)
        print(part, took[part], "s", flush=True)
        torch.cuda.empty_cache()
        if int(os.environ.get("RANK", 0)) != 0:
            continue
        with open(options.out, "w") as f:
            json.dump({"gpu": torch.cuda.get_device_name(), "host": processor(), "cores": os.cpu_count(),
                       "versions": versions, "took": took, "rows": ROWS}, f)
    if "error" in (key for row in ROWS for key in row):
        sys.exit(1)


if __name__ == "__main__":
    main()
