#!/bin/sh
# Runs a fuzz target of this folder under libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer. What it found
# is kept in build/fuzz/TARGET.corpus; an input that fails is written there too.
# usage: tests/fuzz/run.sh TARGET [SECONDS]       needs clang
set -e
cd "$(dirname "$(readlink -f "$0")")/../.."
target=${1:?usage: tests/fuzz/run.sh TARGET [SECONDS]}
corpus=build/fuzz/$target.corpus
CXX=clang++ cmake -B build/fuzz -G Ninja -DCMAKE_BUILD_TYPE=Release -DHEADROOM_FUZZ=ON -DHEADROOM_CUDA=OFF >/dev/null
cmake --build build/fuzz --target "$target"
mkdir -p "$corpus"
if [ "$target" = replay_fuzz ]; then
  for name in basic cpp expandable streams; do
    gunzip -c "tests/data/snapshots/$name.pickle.gz" >"$corpus/$name.pickle"
  done
  echo '{"format":3,"phases":["a"],"labels":["x"],"events":[["p",0],["a",0,7000000,1,0],["q",0],["f",0],["e"],["S+",9]]}' \
    >"$corpus/stream.json"
fi
exec "build/fuzz/tests/$target" "$corpus" -artifact_prefix="$corpus/" -max_len=20000 -max_total_time="${2:-60}"
