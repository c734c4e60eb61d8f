#!/bin/bash
# The proof on two GPUs: FSDP2 jobs of two ranks as real work with NCCL and in real PyTorch on the same cards; a job of
# eight ranks of which two are present; the links and NCCL's memory in a hardware profile; ranks started by torchrun.
#   gpu_session_2gpu.sh BUNDLE OUT          LIMIT=470: seconds in all
source "$(dirname "$(readlink -f "$0")")/session.sh"
session "$1" "$2"

for case in fsdp-q05-grpo fsdp-q05-ppo-offload fsdp-ll1b-zero2 fsdp-q15-grpo-ce-fp32; do both "$case" 2; done
part calibrate 90 "$headroom" calibrate --nproc 2 --json "$out/calibrate.json" --profile "$out/profile.yaml" \
  >"$out/calibrate.txt" 2>&1
VALIDATE_SECONDS=90 validate "verl 7B GRPO, 2 of 8 ranks" --framework verl --nproc 2 --steps 2 \
  "$bundle/examples/qwen2.5-7b-grpo-8xh100.yaml"
part "torchrun fsdp-streams-q05" 60 python3 -m torch.distributed.run --standalone --nproc-per-node 2 --no-python \
  "$headroom" validate --framework torch "$bundle/cases/fsdp-streams-q05.json" >"$out/torchrun.txt" 2>&1
part "pytorch process memory" 60 python3 -m torch.distributed.run --standalone --nproc-per-node 2 \
  "$bundle/pytorch/process_memory.py" "$out/pytorch2.json" >>"$out/summary.txt" 2>&1
finish
tail -n 5 "$out/torchrun.txt"
pack
