#!/bin/sh
# Writes docs/ACCURACY.md and tests/data/accuracy.json: every recording under tests/data against the prediction
# for its own case; then what was measured on GPUs. Builds the release binary when needed.
set -e
cd "$(dirname "$0")/.."
set --
for folder in rlhf deepspeed trl trl-loops; do
  [ -d "tests/data/$folder" ] && set -- "$@" --corpus "tests/data/$folder"
done
# Exit 4 says that some run is beyond the limits; the document says which.
./headroom compare "$@" --markdown docs/ACCURACY.md --worst tests/data/accuracy.json --quiet || [ $? -eq 4 ]
python3 validator/scripts/gpu_tables.py
python3 docs/accuracy_by_trainer.py
