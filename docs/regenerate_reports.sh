#!/bin/sh
# Writes docs/REPORTS.md and tests/data/reports/verdicts.json: public reports against the prediction for their own
# configurations. Builds what it needs.
set -e
cd "$(dirname "$0")/.."
cmake --preset test >/dev/null
cmake --build --preset test --target headroom_public_reports
build/release/tests/headroom_public_reports docs/REPORTS.md tests/data/reports/verdicts.json
# Public logs are read where they lie, and are no part of the project.
if [ -n "$HEADROOM_TRUTH" ]; then
  cmake --build --preset test --target headroom
  python3 docs/public_verl_memory.py build/release/planner/headroom > docs/VERL_MEASURED.md
  python3 docs/public_verl_launches.py build/release/planner/headroom > docs/VERL_LAUNCHES.md
fi
if [ -n "$HEADROOM_FORKS" ]; then
  cmake --build --preset test --target headroom
  python3 docs/public_verl_forks.py build/release/planner/headroom "$HEADROOM_FORKS" > docs/VERL_FORKS.md
fi
