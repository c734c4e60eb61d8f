#!/bin/sh
# Collects what a GPU machine without build tools needs into one folder: the program, the GPU tests, the shared libraries
# that such a machine may lack, recorded cases, example configurations, the PyTorch programs and the session scripts. Run
# after building the preset `test`.
#   validator/scripts/bundle.sh [FOLDER]          default: build/gpu-bundle
set -e
root=$(dirname "$(readlink -f "$0")")/../..
bundle=${1:-$root/build/gpu-bundle}
mkdir -p "$bundle/lib" "$bundle/cases" "$bundle/deepspeed" "$bundle/examples" "$bundle/pytorch"
cp "$root/build/release/planner/headroom" "$root/build/release/tests/validator_gpu_tests" "$bundle/"
strip "$bundle/headroom" "$bundle/validator_gpu_tests"
for library in $(ldd "$bundle/headroom" "$bundle/validator_gpu_tests" | sed -n 's/.*=> \(.*libfmt[^ ]*\) .*/\1/p' | sort -u); do
  cp -L "$library" "$bundle/lib/"
done
for case in "$root"/tests/data/rlhf/*.json; do cp "$case" "$bundle/cases/"; done
cp "$root"/tests/data/deepspeed/*.json "$bundle/deepspeed/"
cp "$root"/configs/examples/verl/*.yaml "$root"/configs/examples/deepspeed-chat/*.yaml "$bundle/examples/"
cp "$root"/validator/pytorch/*.py "$root/tests/support/recorder_checks.py" "$bundle/pytorch/"
cp "$root"/validator/scripts/*.sh "$bundle/"
du -sh "$bundle"
