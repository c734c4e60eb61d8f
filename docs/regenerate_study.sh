#!/bin/sh
# Writes the tables of docs/STUDY.md, between `<!-- begin: NAME -->` and `<!-- end: NAME -->`: from the shipped study, from
# recorded runs under tests/data (and $HEADROOM_TRUTH/deepspeed where that names a larger collection), and from random jobs.
# HEADROOM: the binary. With NAMEs, only those tables.
set -e
cd "$(dirname "$(readlink -f "$0")")/.."
python3 docs/study_tables.py docs/STUDY.md "$@"
