# Sourced by the sessions: parts with time limits of their own, of which a failing one stops no other, within one limit for
# the whole session (LIMIT, seconds).
#   session BUNDLE OUT
#   part NAME SECONDS COMMAND…          exit codes and seconds go to OUT/summary.txt
#   validate NAME ARGUMENTS…            a table into OUT/validate.txt, one object a line into OUT/validate.jsonl
#   pytorch CASE [RANKS]                OUT/pytorch/CASE.json, the same case in real PyTorch
#   finish                              what matters on standard output
#   pack                                OUT/results.tar.gz instead of the files
session() {
  bundle=$(readlink -f "$1")
  mkdir -p "$2/pytorch"
  out=$(readlink -f "$2")
  export LD_LIBRARY_PATH=$bundle/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  headroom=$bundle/headroom
  { nvidia-smi; nvidia-smi topo -m; free -g; python3 -c 'import torch, transformers; print(torch.__version__, transformers.__version__)'
    python3 -c 'import peft; print("peft", peft.__version__)'; } >"$out/summary.txt" 2>&1
}

part() {
  local name=$1 limit=$2 begin=$SECONDS left=$((${LIMIT:-470} - SECONDS))
  shift 2
  if [ "$left" -lt 5 ]; then
    echo "$name: left out, no time" >>"$out/summary.txt"
    return 99
  fi
  timeout -k 5 $((limit < left ? limit : left)) "$@"
  local code=$?
  echo "$name: exit $code, $((SECONDS - begin)) s" >>"$out/summary.txt"
  return $code
}

validate() {
  local name=$1
  shift
  echo "=== $name" >>"$out/validate.txt"
  part "validate $name" "${VALIDATE_SECONDS:-60}" "$headroom" validate --json "$out/one.json" "$@" >>"$out/validate.txt" 2>&1
  if [ -s "$out/one.json" ]; then
    printf '{"name":"%s","validation":%s}\n' "$name" "$(tr -d '\n' <"$out/one.json")" >>"$out/validate.jsonl"
  fi
  rm -f "$out/one.json"
}

pytorch() {
  local case=$1 ranks=${2:-1} settings
  settings=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["case"].get("_conf", ""))' "$bundle/cases/$case.json")
  part "pytorch $case" "${PYTORCH_SECONDS:-75}" env PYTORCH_CUDA_ALLOC_CONF="$settings" python3 -m torch.distributed.run \
    --standalone --nproc-per-node "$ranks" "$bundle/pytorch/rlhf_step.py" "$bundle/cases/$case.json" "$out/pytorch/$case.json" \
    >>"$out/pytorch.txt" 2>&1
}

# The case in PyTorch and as a probe, on this card: a table of three columns. Where PyTorch did not end, or is left out
# (PROBE_ONLY=1), what was recorded earlier is the third.
both() {
  local case=$1 ranks=${2:-1}
  [ -n "$PROBE_ONLY" ] || pytorch "$case" "$ranks" || rm -f "$out/pytorch/$case.json"
  local recording=$out/pytorch/$case.json
  [ -s "$recording" ] || recording=$bundle/cases/$case.json
  validate "$case" --framework torch --nproc "$ranks" --recording "$recording" "$bundle/cases/$case.json"
}

finish() {
  grep -E 'mean|worst|error|without a kernel|ten that hold|out of memory|===|NCCL took|beside' "$out/validate.txt" | cut -c1-200
  tail -n 20 "$out/pytorch.txt" 2>/dev/null | cut -c1-200
  grep -E ': exit |left out' "$out/summary.txt"
}

# Everything in one file: machines that lend GPUs bring few files back.
pack() {
  tar czf "$out/results.tar.gz" -C "$out" --exclude results.tar.gz --remove-files .
  ls -l "$out"
}
