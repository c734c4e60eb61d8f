#!/bin/sh
# Writes docs/TIME.md: the seconds of every recording that has them against the prediction for its own case.
# Builds the release binary when needed.
set -e
cd "$(dirname "$0")/.."
# Exit 4 tells of memory, which docs/ACCURACY.md shows.
./headroom compare --corpus tests/data/rlhf --corpus tests/data/time --time docs/TIME.md --quiet || [ $? -eq 4 ]
# Public recipes are read where they lie, and are no part of the project.
if [ -n "$HEADROOM_TRUTH" ]; then python3 docs/public_step_times.py ./headroom >> docs/TIME.md; fi
