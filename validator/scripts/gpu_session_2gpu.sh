#!/bin/bash
# The proof on two GPUs: FSDP2 jobs of two ranks as real work with NCCL and in real PyTorch on the same cards; a job of
# eight ranks of which two are present, and jobs of four; Megatron's tensor parallelism and DeepSpeed's ZeRO with offload
# on two; the links and NCCL's memory in a hardware profile; ranks started by torchrun; where segments lie beside NCCL.
#   gpu_session_2gpu.sh BUNDLE OUT [SECTION…]          default: every section; LIMIT=470: seconds in all
source "$(dirname "$(readlink -f "$0")")/session.sh"
session "$1" "$2"

jobs() {
  for case in ${CASES:-fsdp-q05-grpo fsdp-q05-ppo-offload fsdp-ll1b-zero2 fsdp-q15-grpo-ce-fp32}; do both "$case" 2; done
}
calibrate() {
  part calibrate 90 "$headroom" calibrate --nproc 2 --json "$out/calibrate.json" --profile "$out/profile.yaml" \
    >"$out/calibrate.txt" 2>&1
}
shard() {
  VALIDATE_SECONDS=90 validate "verl 7B GRPO, 2 of 8 ranks" --framework verl --nproc 2 --steps 2 \
    "$bundle/examples/qwen2.5-7b-grpo-8xh100.yaml"
}
fsdp2() {
  VALIDATE_SECONDS=90 validate "verl 8B GRPO FSDP2, 2 of 8 ranks" --framework verl --nproc 2 --steps 2 \
    --set actor_rollout_ref.rollout.gpu_memory_utilization=0.3 "$bundle/examples/qwen3-8b-grpo-fsdp2-8xh200.yaml"
}
# The shipped example of eight cards, as two tensor-parallel ranks of one stage.
megatron() {
  local of=actor_rollout_ref
  VALIDATE_SECONDS=90 validate "verl 1.5B GRPO Megatron, TP 2" --framework verl --nproc 2 --steps 2 \
    --set $of.model.path=Qwen/Qwen2.5-1.5B-Instruct --set trainer.n_gpus_per_node=2 \
    --set $of.actor.megatron.pipeline_model_parallel_size=1 --set $of.ref.megatron.pipeline_model_parallel_size=1 \
    --set $of.rollout.gpu_memory_utilization=0.4 "$bundle/examples/qwen2.5-7b-grpo-megatron-8xh100.yaml"
}
# What DeepSpeed itself was recorded to take is the third column.
deepspeed() {
  for case in ${DEEPSPEED_CASES:-opt13-z0 opt13-z1 opt13-z2 opt13-z2-off opt13-z3}; do
    validate "deepspeed-chat $case" --framework deepspeed-chat --nproc 2 "$bundle/deepspeed/$case.json"
  done
}
zero3_offload() {
  VALIDATE_SECONDS=90 validate "deepspeed-chat opt-1.3b ZeRO-3, offload" --framework deepspeed-chat --nproc 2 \
    "$bundle/examples/opt-1.3b-ppo-zero3-offload-2xh100.yaml"
}
# Two ranks with the sizes of four.
four() {
  validate "fsdp-q05-grpo, 2 of 4 ranks" --framework torch --nproc 2 --set _world=4 "$bundle/cases/fsdp-q05-grpo.json"
  validate "fsdp-q05-ppo-offload, 2 of 4 ranks" --framework torch --nproc 2 --set _world=4 \
    "$bundle/cases/fsdp-q05-ppo-offload.json"
}
# The start of a ZeRO-3 run, up to its first generation, served by PyTorch's allocator with NCCL beside it and without.
placement() {
  "$headroom" simulate --framework deepspeed-chat --quiet --events "$out/stream.json" "$bundle/deepspeed/opt13-z3.json"
  part placement 90 python3 -m torch.distributed.run --standalone --nproc-per-node 2 \
    "$bundle/pytorch/segment_placement.py" "$out/stream.json" "$out/placement.jsonl" 8602 >"$out/placement.txt" 2>&1
  rm -f "$out/stream.json"
}
torchrun() {
  part "torchrun fsdp-streams-q05" 60 python3 -m torch.distributed.run --standalone --nproc-per-node 2 --no-python \
    "$headroom" validate --framework torch "$bundle/cases/fsdp-streams-q05.json" >"$out/torchrun.txt" 2>&1
}
process_memory() {
  part "pytorch process memory" 60 python3 -m torch.distributed.run --standalone --nproc-per-node 2 \
    "$bundle/pytorch/process_memory.py" "$out/pytorch2.json" >>"$out/summary.txt" 2>&1
}

shift 2
[ $# -gt 0 ] || set -- shard fsdp2 megatron deepspeed zero3_offload four placement jobs torchrun calibrate process_memory
for section in "$@"; do "$section"; done
finish
tail -n 5 "$out/torchrun.txt" 2>/dev/null
pack
