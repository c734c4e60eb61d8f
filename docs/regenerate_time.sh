#!/bin/sh
# Writes docs/TIME.md: the seconds of every recording that has them against the prediction for its own case.
# Builds the release binary when needed.
set -e
cd "$(dirname "$0")/.."
# Exit 4 tells of memory, which docs/ACCURACY.md shows.
./headroom compare --corpus tests/data/rlhf --corpus tests/data/time --time docs/TIME.md --quiet || [ $? -eq 4 ]
# The same work several times in one process (validator/pytorch/repeat_cases.py): only its seconds count.
./headroom compare --corpus tests/data/time_repeated --time docs/TIME.repeated --quiet || [ $? -eq 4 ]
{
  echo
  echo "# Steps repeated on one machine"
  echo
  echo "Two H200, a host of 32 cores of an Intel Xeon in a virtual machine whose speed changes by half from second to second: a"
  echo "fixed piece of Python took 0.75 to 1.57 ms beside these steps (\`unit\` in the recordings)."
  sed '1,/^$/d' docs/TIME.repeated
} >> docs/TIME.md
rm docs/TIME.repeated
{
  echo
  echo "# Megatron-Core's own steps"
  echo
  echo "Small models on one and two H200 whose hosts other runs shared (\`tests/data/megatron\`); of each phase the quickest"
  echo "recorded step after the first. First what Python takes of a linear module and of an exchange of rows of tokens, as these"
  echo "recordings have it and configs/hardware/h100.yaml states it; a lone H200's rates."
  echo
  cmake --preset test >/dev/null
  cmake --build --preset test --target headroom_megatron_times >/dev/null
  build/release/tests/headroom_megatron_times tests/data/megatron/recorded.json
} >> docs/TIME.md
# Public recipes and logs are read where they lie, and are no part of the project.
if [ -n "$HEADROOM_TRUTH" ]; then python3 docs/public_step_times.py ./headroom >> docs/TIME.md; fi
