#!/bin/sh
# Writes the tables of docs/ENGINES.md (after `<!-- tables -->`): public start-up logs of vLLM and SGLang against the
# prediction for their settings. Builds what it needs.
set -e
cd "$(dirname "$(readlink -f "$0")")/.."
cmake --preset test >/dev/null
cmake --build --preset test --target headroom_engine_logs >/dev/null
table=$(build/release/tests/headroom_engine_logs)
kept=$(sed '/<!-- tables -->/q' docs/ENGINES.md)
printf '%s\n\n%s\n' "$kept" "$table" >docs/ENGINES.md
