#!/bin/bash
# Runs everything that needs a GPU, on a machine that has one: kernel tests, the memory checker on them, calibration with
# kernel rates, and what a PyTorch process takes. Each part has its own time limit, and a failing part does not stop the
# others.
#   validator/scripts/gpu_session.sh BUNDLE OUT
# Writes into OUT: summary.txt, tests.txt, sanitizer.txt, calibrate.json, calibrate.txt, pytorch.json, and on two or more
# GPUs calibrate2.json and pytorch2.json.
bundle=$(readlink -f "$1")
out=$(readlink -f "$2")
root=$(dirname "$(readlink -f "$0")")/../..
export LD_LIBRARY_PATH=$bundle/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
gpus=$(nvidia-smi -L | wc -l)

part() { # NAME SECONDS COMMAND…
  local name=$1 limit=$2 begin=$SECONDS
  shift 2
  timeout -k 5 "$limit" "$@"
  local code=$?
  echo "$name: exit $code, $((SECONDS - begin)) s" >>"$out/summary.txt"
}

{ nvidia-smi; nvidia-smi topo -m; env | grep -E '^(NCCL|TORCH|NVSHMEM|CUDA)'; ldd --version | head -1; } >"$out/summary.txt" 2>&1

part calibrate 120 "$bundle/headroom" calibrate --kernels --json "$out/calibrate.json" >"$out/calibrate.txt" 2>&1
part tests 100 "$bundle/validator_gpu_tests" --gtest_brief=1 >"$out/tests.txt" 2>&1
script=$root/validator/pytorch/process_memory.py
part pytorch 60 python3 "$script" "$out/pytorch.json" >>"$out/summary.txt" 2>&1
if [ "$gpus" -ge 2 ]; then
  part calibrate2 100 "$bundle/headroom" calibrate --nproc "$gpus" --json "$out/calibrate2.json" >>"$out/summary.txt" 2>&1
  part pytorch2 60 python3 -m torch.distributed.run --nproc-per-node "$gpus" "$script" "$out/pytorch2.json" \
    >>"$out/summary.txt" 2>&1
fi
# The memory checker slows kernels down by far: small sizes only, the largest vocabularies left out.
part sanitizer 130 compute-sanitizer --tool memcheck --leak-check no --error-exitcode 9 \
  "$bundle/validator_gpu_tests" --gtest_brief=1 --gtest_filter='-*GpuDevice*:*Softmax*fp32:*Softmax*fp16' \
  >"$out/sanitizer.txt" 2>&1
tail -n 5 "$out/tests.txt" "$out/sanitizer.txt"
grep -hE 'FAILED|Failure|ERROR SUMMARY' "$out/tests.txt" "$out/sanitizer.txt" | head -40
cut -c1-110 "$out/calibrate.txt"
grep -E ': exit ' "$out/summary.txt"
