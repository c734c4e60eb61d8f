#!/bin/bash
# The proof on one GPU: kernel tests, rates and a hardware profile; jobs predicted, run as real work and in real PyTorch
# on the same card; a 7B shard of eight beside a rollout engine; ZeRO-3 with offload; quick probes; a busy card, a job
# that is too large and a margin that is too small; the recorder; the memory checker.
#   gpu_session_1gpu.sh BUNDLE OUT [SECTION…]          default: every section; LIMIT=470: seconds in all
source "$(dirname "$(readlink -f "$0")")/session.sh"
session "$1" "$2"
verl=$bundle/examples/qwen2.5-7b-grpo-8xh100.yaml
offload="--set actor_rollout_ref.actor.fsdp_config.param_offload=true
  --set actor_rollout_ref.actor.fsdp_config.optimizer_offload=true"

# Each test draws its numbers anew, so that several rounds try several seeds.
tests() {
  part tests 90 "$bundle/validator_gpu_tests" --gtest_brief=1 --gtest_repeat="${ROUNDS:-5}" >"$out/tests.txt" 2>&1
}
calibrate() {
  part calibrate 70 "$headroom" calibrate --kernels --json "$out/calibrate.json" --profile "$out/profile.yaml" \
    >"$out/calibrate.txt" 2>&1
}
jobs() {
  for case in ${CASES:-opt13-ppo-none q05-ppo-actoff opt13-ppo-expandable q05-grpo-lora ll1b-grpo-bf16}; do both "$case"; done
}
# PyTorch's models and states leave for pageable memory: a heap that is kept is touched once.
ems() {
  MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=1000000000000 VALIDATE_SECONDS=90 \
    PYTORCH_SECONDS=${EMS_PYTORCH_SECONDS:-100} both opt13-ppo-ems
}
shard() { VALIDATE_SECONDS=90 validate "verl 7B GRPO, 1 of 8 ranks" --framework verl --steps 2 "$verl"; }
shard_offload() {
  VALIDATE_SECONDS=110 validate "verl 7B GRPO, offload, 1 of 8 ranks" --framework verl --steps 2 $offload "$verl"
}
zero3_offload() {
  VALIDATE_SECONDS=90 validate "deepspeed-chat opt-1.3b ZeRO-3, offload" --framework deepspeed-chat --set world=1 \
    "$bundle/examples/opt-1.3b-ppo-zero3-offload-2xh100.yaml"
}
quick() {
  for case in ll1b-grpo-bf16 opt13-ppo-none; do
    validate "$case, quick" --framework torch --quick "$bundle/cases/$case.json"
  done
  validate "verl 7B GRPO, quick, 1 of 8 ranks" --framework verl --quick --steps 2 "$verl"
}
# Another process holds 20 GiB of the card all the while.
busy() {
  python3 -c 'import torch, time; x = torch.ones(20 << 30, dtype=torch.uint8, device="cuda"); torch.cuda.synchronize(); print("held", flush=True); time.sleep(60)' \
    >"$out/busy.txt" 2>&1 &
  local holder=$!
  for _ in $(seq 100); do grep -q held "$out/busy.txt" && break; sleep 0.2; done
  validate "fr-llama, busy card" --framework torch "$bundle/cases/fr-llama.json"
  kill $holder
  wait $holder 2>/dev/null
}
# Sixteen times the sequences in one micro-batch: more than any card has.
too_large() {
  validate "ll1b-grpo-bf16, too large" --framework torch --set batch=1024 --set micro_batch=1024 \
    --set logprob_micro_batch=1024 "$bundle/cases/ll1b-grpo-bf16.json"
}
# What is not within the margin is exit 4: the driver rounds at least something up.
margin() {
  part "fr-llama within 0 (4 is right)" 60 "$headroom" validate --framework torch --within 0 "$bundle/cases/fr-llama.json" \
    >"$out/margin.txt" 2>&1
}
# The recorder held to its promises on the PyTorch of this machine.
recorder() {
  part recorder 90 python3 "$bundle/pytorch/recorder_checks.py" "$bundle/pytorch" "$out" >"$out/recorder.txt" 2>&1
  rm -f "$out"/test_*.json "$out"/run.pickle
}
# The checker slows everything down, so short runs; what it finds is its own exit code (9), not the verdict (4).
sanitizer() {
  part sanitizer 60 compute-sanitizer --tool memcheck --report-api-errors no --leak-check no --error-exitcode 9 "$headroom" validate \
    --framework torch --quiet --within 1 "$bundle/cases/fr-llama.json" >"$out/sanitizer.txt" 2>&1
  part "sanitizer tests" "${SANITIZER_SECONDS:-120}" compute-sanitizer --tool memcheck --report-api-errors no --leak-check no \
    --error-exitcode 9 "$bundle/validator_gpu_tests" --gtest_brief=1 >>"$out/sanitizer.txt" 2>&1
}

shift 2
[ $# -gt 0 ] || set -- tests calibrate jobs shard zero3_offload quick busy too_large margin recorder ems shard_offload sanitizer
for section in "$@"; do "$section"; done
tail -n 4 "$out/tests.txt" 2>/dev/null
grep -hE 'ERROR SUMMARY|FAILED|seed' "$out/sanitizer.txt" "$out/tests.txt" 2>/dev/null | head
finish
pack
