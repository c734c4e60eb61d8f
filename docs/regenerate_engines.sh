#!/bin/sh
# Writes docs/ENGINES.md: public start-up logs of vLLM and SGLang against the prediction for their settings.
set -e
cd "$(dirname "$0")/.."
cmake --preset test >/dev/null
cmake --build --preset test --target headroom_engine_logs
build/release/tests/headroom_engine_logs docs/ENGINES.md
