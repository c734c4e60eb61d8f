#!/bin/bash
# The proof on one GPU: jobs predicted, run as real work and in real PyTorch on the same card; a 7B shard of eight beside a
# rollout engine; a busy card and one that is too small; kernel tests, rates, a hardware profile; the memory checker.
#   gpu_session3.sh BUNDLE OUT          LIMIT=470: seconds in all
source "$(dirname "$(readlink -f "$0")")/session.sh"
session "$1" "$2"
verl=$bundle/examples/qwen2.5-7b-grpo-8xh100.yaml

VALIDATE_SECONDS=90 validate "verl 7B GRPO, 1 of 8 ranks" --framework verl --steps 2 "$verl"
part tests 60 "$bundle/validator_gpu_tests" --gtest_brief=1 >"$out/tests.txt" 2>&1
part calibrate 60 "$headroom" calibrate --kernels --json "$out/calibrate.json" --profile "$out/profile.yaml" \
  >"$out/calibrate.txt" 2>&1
for case in opt13-ppo-none q05-ppo-actoff opt13-ppo-expandable q05-grpo-lora; do both "$case"; done
PYTORCH_SECONDS=140 both opt13-ppo-ems
validate "ll1b-grpo-bf16" --framework torch "$bundle/cases/ll1b-grpo-bf16.json"
for case in ll1b-grpo-bf16 opt13-ppo-none; do
  validate "$case, quick" --framework torch --quick "$bundle/cases/$case.json"
done
VALIDATE_SECONDS=90 validate "verl 7B GRPO, offload, 1 of 8 ranks" --framework verl --steps 2 \
  --set actor_rollout_ref.actor.fsdp_config.param_offload=true \
  --set actor_rollout_ref.actor.fsdp_config.optimizer_offload=true "$verl"
# Another process holds 20 GiB of the card all the while.
python3 -c 'import torch, time; x = torch.ones(20 << 30, dtype=torch.uint8, device="cuda"); torch.cuda.synchronize(); print("held", flush=True); time.sleep(60)' \
  >"$out/busy.txt" 2>&1 &
holder=$!
for _ in $(seq 100); do grep -q held "$out/busy.txt" && break; sleep 0.2; done
validate "fr-llama, busy card" --framework torch "$bundle/cases/fr-llama.json"
kill $holder
wait $holder 2>/dev/null
# Sixteen times the sequences in one micro-batch: more than any card has.
validate "ll1b-grpo-bf16, too large" --framework torch --set batch=1024 --set micro_batch=1024 \
  --set logprob_micro_batch=1024 "$bundle/cases/ll1b-grpo-bf16.json"
# The checker slows everything down, so short runs; what they find is its own exit code (9), not the verdict (4).
part sanitizer 60 compute-sanitizer --tool memcheck --leak-check no --error-exitcode 9 "$headroom" validate \
  --framework torch --quiet --within 1 "$bundle/cases/fr-llama.json" >"$out/sanitizer.txt" 2>&1
part "sanitizer tests" 90 compute-sanitizer --tool memcheck --leak-check no --error-exitcode 9 \
  "$bundle/validator_gpu_tests" --gtest_brief=1 --gtest_filter='-*GpuDevice*:*Softmax*fp32:*Softmax*fp16:*Attention*fp32' \
  >>"$out/sanitizer.txt" 2>&1
tail -n 4 "$out/tests.txt"
grep -E 'ERROR SUMMARY|FAILED' "$out/sanitizer.txt" "$out/tests.txt" | head
finish
pack
