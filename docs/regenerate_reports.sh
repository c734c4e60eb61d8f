#!/bin/sh
# Writes docs/REPORTS.md and tests/data/reports/verdicts.json: public reports against the prediction for their own
# configurations. Builds what it needs.
set -e
cd "$(dirname "$0")/.."
cmake --preset test >/dev/null
cmake --build --preset test --target headroom_public_reports
build/release/tests/headroom_public_reports docs/REPORTS.md tests/data/reports/verdicts.json
