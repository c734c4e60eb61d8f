#!/bin/sh
# Writes docs/TRAINERS_RECORDED.md and tests/data/trainers-recorded-errors.json: every recording of a framework's own
# trainers and workers against the prediction for its own words or configuration.
set -e
cd "$(dirname "$0")/.."
# Exit 4 says that some run is beyond the limits; the document says which.
./headroom compare --corpus tests/data/trl-trainers --corpus tests/data/nemo-rl-worker \
  --corpus tests/data/openrlhf-actors \
  --corpus tests/data/deepspeed-chat-runs --corpus tests/data/colossalchat-trainers \
  --markdown docs/TRAINERS_RECORDED.md --worst tests/data/trainers-recorded-errors.json --quiet || [ $? -eq 4 ]
python3 docs/accuracy_by_trainer.py
