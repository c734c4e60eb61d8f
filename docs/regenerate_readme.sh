#!/bin/sh
# Puts the commands' real output into README.md and docs/guide: each ```text block that follows `<!-- output: COMMAND -->`,
# and each block that follows `<!-- file: PATH -->` gets that file's text.
set -e
cd "$(dirname "$(readlink -f "$0")")/.."
python3 - README.md docs/guide/*.md <<'PY'
import re, subprocess, sys
def run(match):
    command = match.group(1)
    out = subprocess.run(command, shell=True, capture_output=True, text=True).stdout
    return f"<!-- output: {command} -->\n```text\n{out.rstrip()}\n```"
def show(match):
    return f"<!-- file: {match.group(1)} -->\n```{match.group(2)}\n{open(match.group(1)).read().rstrip()}\n```"
for name in sys.argv[1:]:
    text = open(name).read()
    text = re.sub(r"<!-- output: (.*?) -->\n```text\n.*?```", run, text, flags=re.S)
    text = re.sub(r"<!-- file: (.*?) -->\n```(\w+)\n.*?```", show, text, flags=re.S)
    open(name, "w").write(text)
PY
