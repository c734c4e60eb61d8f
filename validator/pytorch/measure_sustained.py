"""What work reaches that lasts: measure_sustained.py OUT.json [--seconds 6]

measure_times.py times bursts of a few milliseconds from an idle card. A card that computes for seconds meets its power
limit and lowers its clock. Here the same kernels run without a pause: rows of `load` state the seconds of a call in a
burst after a rest, and in every later quarter of a second, with clock and power as the driver tells them beside.
`mixed` rows alternate stretches of products with stretches of a kernel that moves memory, by the products' share of the
time; `decoder` is training of a few decoder layers of an 8B model on 4,096 tokens, dispatched ahead of the card;
`experts` are the products of a mixture's decoding step, a Triton kernel over tokens sorted by expert and PyTorch's own.
Random data: zeros take less power. One GPU.
"""
import argparse, json, statistics, subprocess, time

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

DEVICE = torch.device("cuda", 0)
ROWS = []


def card():
    """Clock in MHz, power in watts, temperature."""
    words = subprocess.run(["nvidia-smi", "--query-gpu=clocks.sm,power.draw,temperature.gpu", "--format=csv,noheader,nounits",
                            "-i", "0"], capture_output=True, text=True).stdout.strip().split(",")
    try:
        return [float(word) for word in words]
    except ValueError:
        return words


def stretch(work, calls):
    """Seconds of so many calls on the stream."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(calls):
        work()
    end.record()
    return begin, end


def lasting(what, work, seconds, rest=2.0, quantum=0.25, **sizes):
    """A call's seconds in a burst, then in every quantum of work without a pause."""
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    time.sleep(rest)
    torch.cuda._sleep(int(4e6))
    begin, end = stretch(work, 1)
    end.synchronize()
    once = max(begin.elapsed_time(end) / 1e3, 1e-6)
    calls = max(1, int(0.01 / once))
    bursts = []
    for _ in range(5):
        time.sleep(0.2)
        torch.cuda._sleep(int(2e6 + 40e3 * min(calls, 200)))
        begin, end = stretch(work, calls)
        end.synchronize()
        bursts.append(begin.elapsed_time(end) / 1e3 / calls)
    calls = max(1, int(quantum / once))
    marks, states = [], []
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        marks.append(stretch(work, calls))
        if len(marks) > 1:
            states.append(card())
            marks[-2][1].synchronize()
    torch.cuda.synchronize()
    later = [begin.elapsed_time(end) / 1e3 / calls for begin, end in marks]
    row = {"part": "load", "what": what, **sizes, "burst": statistics.median(bursts), "later": later, "card": states}
    row["lasting"] = statistics.median(later[len(later) // 2:])
    ROWS.append(row)
    print(f"{what} {sizes}: burst {row['burst'] * 1e6:.1f} us, lasting {row['lasting'] * 1e6:.1f} us, "
          f"{row['burst'] / row['lasting']:.3f}, {states[-1] if states else None}", flush=True)
    return row


def product(m, n, k, seconds):
    a = torch.randn(m, k, device=DEVICE, dtype=torch.bfloat16)
    w = torch.randn(n, k, device=DEVICE, dtype=torch.bfloat16)
    lasting("product", lambda: F.linear(a, w), seconds, m=m, n=n, k=k)


def attention(seconds):
    q = torch.randn(1, 32, 4096, 128, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
    k, v = (torch.randn(1, 8, 4096, 128, device=DEVICE, dtype=torch.bfloat16, requires_grad=True) for _ in range(2))
    run = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    with torch.no_grad():
        lasting("attention forward", run, seconds, length=4096, heads=32, kv_heads=8, dim=128)
    g = torch.randn_like(run())
    lasting("attention forward and backward", lambda: torch.autograd.backward(run(), g), seconds, length=4096, heads=32,
            kv_heads=8, dim=128)


def memory(seconds):
    x, y = (torch.randn(1 << 28, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    lasting("add", lambda: torch.add(x, y, out=x), seconds, bytes=3 * 2 * x.numel())
    m = [torch.randn(14336, 4096, device=DEVICE, dtype=torch.bfloat16) for _ in range(8)]
    a = torch.randn(64, 4096, device=DEVICE, dtype=torch.bfloat16)
    lasting("eight products of 64 tokens", lambda: [F.linear(a, w) for w in m], seconds, bytes=8 * 2 * m[0].numel())


def mixed(seconds):
    """Products for a part of the time: stretches of some 4 ms in all."""
    a = torch.randn(4096, 4096, device=DEVICE, dtype=torch.bfloat16)
    w = torch.randn(14336, 4096, device=DEVICE, dtype=torch.bfloat16)
    x, y = (torch.randn(1 << 24, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    ticks = 1.7e6  # of a stretch that does nothing, some 1 ms
    for products, adds, idle in ((6, 12, 0), (4, 24, 0), (2, 36, 0), (6, 0, 1), (4, 0, 2), (2, 0, 3)):
        spent = []

        def work():
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(products):
                F.linear(a, w)
            end.record()
            spent.append((begin, end))
            for _ in range(adds):
                torch.add(x, y, out=x)
            if idle:
                torch.cuda._sleep(int(idle * ticks))

        row = lasting("mixed", work, seconds, products=products, adds=adds, idle=idle)
        last = spent[len(spent) // 2:]
        row["product_lasting"] = statistics.median(b.elapsed_time(e) for b, e in last) / 1e3 / products
        row["product_first"] = statistics.median(b.elapsed_time(e) for b, e in spent[3:30]) / 1e3 / products
        print(f"  a product {row['product_first'] * 1e6:.1f} us first, {row['product_lasting'] * 1e6:.1f} us later", flush=True)


class Decoder(torch.nn.Module):
    """A layer of Llama 8B's sizes."""

    def __init__(self):
        super().__init__()
        make = lambda n, k: torch.nn.Linear(k, n, bias=False, device=DEVICE, dtype=torch.bfloat16)
        self.qkv, self.out, self.up, self.down = make(6144, 4096), make(4096, 4096), make(28672, 4096), make(4096, 14336)
        self.norms = torch.nn.ParameterList(torch.ones(4096, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))

    def forward(self, x):
        h = F.rms_norm(x, (4096,), self.norms[0])
        q, k, v = self.qkv(h).split((4096, 1024, 1024), -1)
        heads = lambda t: t.view(1, -1, t.shape[-1] // 128, 128).transpose(1, 2)
        h = F.scaled_dot_product_attention(heads(q), heads(k), heads(v), is_causal=True, enable_gqa=True)
        x = x + self.out(h.transpose(1, 2).reshape(1, -1, 4096))
        gate, up = self.up(F.rms_norm(x, (4096,), self.norms[1])).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


def decoder(seconds):
    layers = [Decoder() for _ in range(4)]
    x = torch.randn(1, 4096, 4096, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
    g = torch.randn_like(x)

    def forward():
        h = x
        for layer in layers:
            h = layer(h)
        return h

    with torch.no_grad():
        lasting("decoder forward", forward, seconds, layers=4, tokens=4096)
    lasting("decoder forward and backward", lambda: torch.autograd.backward(forward(), g), seconds, layers=4, tokens=4096)


@triton.jit
def experts_kernel(x, w, out, order, experts, rows, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                   CHOSEN: tl.constexpr):
    """out[row] = x[row // CHOSEN] @ w[expert].T for rows sorted by expert, each expert's padded to BM."""
    block, column = tl.program_id(1), tl.program_id(0)
    expert = tl.load(experts + block)
    row = tl.load(order + block * BM + tl.arange(0, BM))
    valid = row < rows
    columns = column * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    left = x + (row // CHOSEN)[:, None] * k + inner[None, :]
    right = w + expert.to(tl.int64) * n * k + columns[None, :] * k + inner[:, None]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, k, BK):
        total += tl.dot(tl.load(left, mask=valid[:, None], other=0), tl.load(right, mask=columns[None, :] < n, other=0))
        left += BK
        right += BK
    tl.store(out + row[:, None] * n + columns[None, :], total.to(tl.bfloat16), mask=valid[:, None] & (columns[None, :] < n))


def burst(work):
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    times = []
    for _ in range(7):
        torch.cuda._sleep(int(4e6))
        begin, end = stretch(work, 20)
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3 / 20)
    return statistics.median(times)


def experts():
    """(experts on this GPU, chosen, hidden, width of gate and up on this GPU)."""
    for count, chosen, hidden, width in ((128, 8, 2048, 1536), (128, 8, 2048, 768), (128, 8, 2048, 384),
                                         (128, 8, 4096, 384), (128, 8, 4096, 192), (256, 8, 7168, 128), (8, 2, 4096, 14336)):
        # Several copies, so that none stays in the cache.
        copies = max(2, min(8, int(4e8 / (2 * count * width * hidden)) + 1))
        weights = [torch.randn(count, width, hidden, device=DEVICE, dtype=torch.bfloat16) for _ in range(copies)]
        for tokens in (1, 4, 16, 64, 128, 256, 512):
            x = torch.randn(tokens, hidden, device=DEVICE, dtype=torch.bfloat16)
            picked = torch.rand(tokens, count, device=DEVICE).topk(chosen, -1).indices.flatten()
            met = picked.unique().numel()
            best = None
            for bm, bn, bk, warps, stages in ((16, 64, 128, 4, 4), (16, 128, 64, 4, 5), (16, 64, 64, 4, 5), (16, 32, 128, 4, 5),
                                              (32, 64, 128, 4, 4), (32, 128, 64, 4, 4), (64, 64, 64, 4, 4), (64, 128, 64, 8, 4)):
                if bm > 16 and tokens * chosen / met < bm / 4:
                    continue
                order, owners = [], []
                for expert in range(count):
                    mine = (picked == expert).nonzero().flatten().tolist()
                    if mine:
                        mine += [tokens * chosen] * (-len(mine) % bm)
                        order += mine
                        owners += [expert] * (len(mine) // bm)
                order = torch.tensor(order, device=DEVICE, dtype=torch.int32)
                owners = torch.tensor(owners, device=DEVICE, dtype=torch.int32)
                out = torch.empty(tokens * chosen, width, device=DEVICE, dtype=torch.bfloat16)
                turn = iter(range(1 << 30))

                def work():
                    w = weights[next(turn) % copies]
                    experts_kernel[(triton.cdiv(width, bn), owners.numel())](
                        x, w, out, order, owners, tokens * chosen, width, hidden, bm, bn, bk, chosen, num_warps=warps,
                        num_stages=stages)

                try:
                    seconds = burst(work)
                except Exception as error:
                    print("left out", bm, bn, bk, type(error).__name__)
                    continue
                if best is None or seconds < best[0]:
                    best = (seconds, (bm, bn, bk, warps, stages))
            row = {"part": "experts", "what": "triton", "tokens": tokens, "experts": count, "chosen": chosen, "hidden": hidden,
                   "width": width, "met": met, "seconds": best[0], "blocks": best[1]}
            ROWS.append(row)
            moved = 2 * (met * width * hidden + tokens * chosen * width + tokens * hidden)
            grouped = None
            if hasattr(torch, "_grouped_mm") and tokens * chosen >= count:
                ends = torch.bincount(picked, minlength=count).cumsum(0).to(torch.int32)
                rows = x.repeat_interleave(chosen, 0)
                turn = iter(range(1 << 30))
                try:
                    grouped = burst(lambda: torch._grouped_mm(rows, weights[next(turn) % copies].transpose(-2, -1), offs=ends))
                    ROWS.append({**row, "what": "grouped_mm", "seconds": grouped, "blocks": None})
                except Exception as error:
                    print("grouped_mm:", str(error)[:80])
            print(f"experts {count}/{chosen} {hidden}x{width}, {tokens} tokens, {met} met: {best[0] * 1e6:.1f} us, "
                  f"{moved / best[0] / 1e12:.2f} TB/s {best[1]} grouped {grouped and round(grouped * 1e6, 1)}", flush=True)
        del weights
        torch.cuda.empty_cache()


def graphs():
    """Host and device seconds of a replayed graph of many small kernels, and of what a sampler does beside it."""
    x = [torch.randn(64, 4096, device=DEVICE, dtype=torch.bfloat16) for _ in range(2)]
    for kernels in (100, 400, 1000):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for i in range(kernels):
                torch.add(x[0], 1.0, out=x[1])
        graph.replay()
        torch.cuda.synchronize()
        host, wall = [], []
        for _ in range(30):
            began = time.perf_counter()
            graph.replay()
            host.append(time.perf_counter() - began)
            torch.cuda.synchronize()
            wall.append(time.perf_counter() - began)
        ROWS.append({"part": "graphs", "kernels": kernels, "host": statistics.median(host), "wall": statistics.median(wall)})
        print(ROWS[-1], flush=True)
    for rows in (16, 64, 256):
        logits = torch.randn(rows, 128256, device=DEVICE, dtype=torch.bfloat16)
        temperature = torch.ones(rows, device=DEVICE)

        def sample():
            wide = logits.to(torch.float32)
            logprobs = wide.log_softmax(-1)
            wide.div_(temperature.unsqueeze(1))
            probabilities = wide.softmax(-1, dtype=torch.float32)
            noise = torch.empty_like(probabilities).exponential_()
            drawn = probabilities.div_(noise).argmax(-1)
            taken = logprobs.gather(-1, drawn.unsqueeze(-1))
            ranks = (logprobs >= taken).sum(-1)
            return drawn.to("cpu").tolist(), taken.to("cpu").tolist(), ranks.to("cpu").tolist()

        for _ in range(3):
            sample()
        wall = []
        for _ in range(20):
            torch.cuda.synchronize()
            began = time.perf_counter()
            sample()
            wall.append(time.perf_counter() - began)
        ROWS.append({"part": "sampler", "rows": rows, "wall": statistics.median(wall)})
        print(ROWS[-1], flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--parts", default="products,decoder,attention,memory,mixed,graphs,experts")
    options = parser.parse_args()
    s = options.seconds
    parts = {"products": lambda: [product(*shape, s) for shape in ((4096, 14336, 4096), (4096, 4096, 4096), (8192, 8192, 8192),
                                                                   (4096, 1536, 8960), (2048, 2048, 2048))],
             "decoder": lambda: decoder(2 * s), "attention": lambda: attention(s), "memory": lambda: memory(s),
             "mixed": lambda: mixed(s), "graphs": graphs, "experts": experts}
    record = {"schema": "headroom.sustained/1", "device": torch.cuda.get_device_name(), "torch": torch.__version__,
              "triton": triton.__version__, "idle": card(), "rows": ROWS}
    for name in options.parts.split(","):
        parts[name]()
        with open(options.out, "w") as file:
            json.dump(record, file)


if __name__ == "__main__":
    main()
