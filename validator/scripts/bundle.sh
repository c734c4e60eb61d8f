#!/bin/sh
# Collects what a GPU machine without build tools needs into build/gpu-bundle: the program, the GPU tests, and the shared
# libraries that such a machine may lack. Run after building the preset `test`.
#   validator/scripts/bundle.sh [FOLDER [CASES]]
# CASES is a folder of recorded runs (JSON) for `headroom validate`.
set -e
root=$(dirname "$(readlink -f "$0")")/../..
bundle=${1:-$root/build/gpu-bundle}
mkdir -p "$bundle/lib"
cp "$root/build/test/planner/headroom" "$root/build/test/tests/validator_gpu_tests" "$bundle/"
strip "$bundle/headroom" "$bundle/validator_gpu_tests"
for library in $(ldd "$bundle/headroom" "$bundle/validator_gpu_tests" | sed -n 's/.*=> \(.*libfmt[^ ]*\) .*/\1/p' | sort -u); do
  cp -L "$library" "$bundle/lib/"
done
if [ -n "$2" ]; then
  mkdir -p "$bundle/cases"
  cp "$2"/*.json "$bundle/cases/"
fi
du -sh "$bundle"
