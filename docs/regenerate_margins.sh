#!/bin/sh
# Writes configs/margins.yaml: what a verdict keeps free of a card, out of the errors in docs/ACCURACY.md by the rule
# in tests/support/margin_rule.h. Builds what it needs.
set -e
cd "$(dirname "$0")/.."
cmake --preset test >/dev/null
cmake --build --preset test --target headroom_margins
build/release/tests/headroom_margins docs/ACCURACY.md configs/margins.yaml
