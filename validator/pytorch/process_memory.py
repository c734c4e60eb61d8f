"""What a PyTorch process takes from the card outside its caching allocator, action by action, as JSON.

usage: python3 process_memory.py FILE        (one process)
       torchrun --nproc-per-node N process_memory.py FILE

The same actions as `headroom calibrate`, so that both can be laid side by side: PyTorch's context holds more kernels
than a small program's.
"""

import json
import os
import sys

import torch
import torch.distributed as dist


class Log:
    def __init__(self):
        self.rows, self.last = [], 0

    def record(self, action):
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        used = total - free - torch.cuda.memory_reserved()
        self.rows.append({"action": action, "used": used, "added": used - self.last})
        self.last = used


def measure_process(log):
    x = torch.empty(1, device="cuda")
    log.record("context")
    x.fill_(1)
    log.record("first kernel")
    a = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
    log.record("random numbers")
    before = torch.cuda.memory_allocated()
    a @ a
    log.record("first bf16 product")
    log.rows.append({"action": "cublas workspace in the allocator", "used": 0,
                     "added": torch.cuda.memory_allocated() - before})
    b = a.float()
    b @ b
    log.record("first fp32 product")
    torch.nn.functional.linear(a, a, a[0])
    log.record("first linear with bias (cublasLt)")
    q = torch.randn(1, 8, 256, 128, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    log.record("attention forward and backward")
    torch.log_softmax(a.float(), -1).sum()
    p = torch.nn.Parameter(b)
    p.grad = torch.ones_like(p)
    torch.optim.AdamW([p]).step()
    log.record("log softmax and foreach AdamW")
    del a, b, q, p
    torch.cuda.empty_cache()


def measure_groups(log, world):
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    log.record("init_process_group")
    x = torch.randn(1 << 20, device="cuda")
    dist.all_reduce(x)
    log.record("first all_reduce")
    y = torch.empty(world << 20, device="cuda")
    dist.all_gather_into_tensor(y, x)
    log.record("first all_gather")
    dist.reduce_scatter_tensor(x, y)
    log.record("first reduce_scatter")
    for k in range(2, 5):
        group = dist.new_group(list(range(world)))
        dist.all_reduce(x, group=group)
        log.record(f"group {k} connected")
    dist.destroy_process_group()


def main():
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    log = Log()
    measure_process(log)
    if world > 1:
        measure_groups(log, world)
    if rank == 0:
        with open(sys.argv[1], "w") as file:
            json.dump({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda,
                       "ranks": world, "memory": log.rows}, file, indent=1)


if __name__ == "__main__":
    main()
