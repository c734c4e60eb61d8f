#!/bin/sh
# Writes docs/VERL_RECORDED.md and tests/data/verl-recorded-errors.json: every recording of verl's own worker
# against the prediction for its own overrides and micro-batches.
set -e
cd "$(dirname "$0")/.."
# Exit 4 says that some run is beyond the limits; the document says which.
./headroom compare --corpus tests/data/verl-recorded --markdown docs/VERL_RECORDED.md \
  --worst tests/data/verl-recorded-errors.json --quiet || [ $? -eq 4 ]
