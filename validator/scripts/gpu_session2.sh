#!/bin/bash
# Runs predicted programs as real work on a machine that has a GPU, and compares. Each part has its own time limit; a
# failing part does not stop the others.
#   validator/scripts/gpu_session2.sh BUNDLE OUT
# Takes the program and the cases from BUNDLE (bundle.sh BUNDLE CASES). Writes into OUT: summary.txt, validate.txt (tables),
# validate.json (one object a line), sanitizer.txt, and on request (CALIBRATE=1) calibrate.json and calibrate.txt.
bundle=$(readlink -f "$1")
out=$(readlink -f "$2")
export LD_LIBRARY_PATH=$bundle/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
headroom=$bundle/headroom

part() { # NAME SECONDS COMMAND…
  local name=$1 limit=$2 begin=$SECONDS
  shift 2
  timeout -k 5 "$limit" "$@"
  local code=$?
  echo "$name: exit $code, $((SECONDS - begin)) s" >>"$out/summary.txt"
}

{ nvidia-smi; free -g; } >"$out/summary.txt" 2>&1
if [ -n "$CALIBRATE" ]; then
  part calibrate 150 "$headroom" calibrate --kernels --json "$out/calibrate.json" >"$out/calibrate.txt" 2>&1
fi

validate() { # CASE ARGUMENTS…
  local case=$1
  shift
  echo "=== $case $*" >>"$out/validate.txt"
  part "$case $*" 75 "$headroom" validate --framework torch "$@" --json "$out/one.json" "$bundle/cases/$case.json" \
    >>"$out/validate.txt" 2>&1
  if [ -s "$out/one.json" ]; then
    tr -d '\n' <"$out/one.json" >>"$out/validate.json"
    echo >>"$out/validate.json"
  fi
  rm -f "$out/one.json"
}

for case in ${CASES:-q05-grpo-ce-fp32 ll1b-grpo-bf16 q05-grpo-lora q05-ppo-actoff opt13-ppo-none opt13-ppo-expandable \
  opt13-ppo-ems gpt2m-ppo-amp opt13-ppo-ckpt}; do
  validate "$case"
done
validate ll1b-grpo-bf16 --quick
# A card that is too small: half of it is taken by a batch of sixteen times as many sequences.
validate ll1b-grpo-bf16 --set batch=1024 --set micro_batch=1024 --set logprob_micro_batch=1024
part sanitizer 120 compute-sanitizer --tool memcheck --leak-check no --error-exitcode 9 \
  "$headroom" validate --framework torch --quiet "$bundle/cases/fr-llama.json" >"$out/sanitizer.txt" 2>&1
part sanitizer-opt 60 compute-sanitizer --tool memcheck --leak-check no --error-exitcode 9 \
  "$headroom" validate --framework torch --quiet "$bundle/cases/fr-opt.json" >>"$out/sanitizer.txt" 2>&1
tail -n 8 "$out/sanitizer.txt"
grep -E 'mean|worst|error|without a kernel|out of memory|===' "$out/validate.txt" | cut -c1-200
grep -E ': exit ' "$out/summary.txt"
