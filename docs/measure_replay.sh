#!/bin/sh
# Measures `headroom replay` on a memory snapshot of one gigabyte (or of BYTES): seconds and peak resident memory.
# usage: docs/measure_replay.sh [BYTES]
set -e
cd "$(dirname "$(readlink -f "$0")")/.."
cmake --preset test >/dev/null
cmake --build --preset test --target headroom headroom_make_snapshot >/dev/null
tool=build/release/tests/headroom_make_snapshot
file=$(mktemp "${TMPDIR:-/tmp}/headroom_snapshot_XXXXXX")
trap 'rm -f "$file"' EXIT
"$tool" write "${1:-1e9}" "$file"
echo "analysis alone:"
"$tool" run build/release/planner/headroom replay "$file" --no-what-if >/dev/null
echo "analysis and what-if:"
"$tool" run build/release/planner/headroom replay "$file" >/dev/null
