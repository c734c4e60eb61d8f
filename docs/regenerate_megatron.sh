#!/bin/sh
# Writes the tables of docs/MEGATRON.md (after `<!-- tables -->`) from the recordings in tests/data/megatron. Builds what
# it needs.
set -e
cd "$(dirname "$(readlink -f "$0")")/.."
cmake --preset test >/dev/null
cmake --build --preset test --target headroom_megatron_table >/dev/null
table=$(build/release/tests/headroom_megatron_table tests/data/megatron/recorded.json
  printf '\nOther models and settings, recorded after the program followed those above (`further.json`):\n\n'
  build/release/tests/headroom_megatron_table tests/data/megatron/further.json)
kept=$(sed '/<!-- tables -->/q' docs/MEGATRON.md)
printf '%s\n\n%s\n' "$kept" "$table" >docs/MEGATRON.md
