#!/bin/sh
# Puts the commands' real output into README.md: each ```text block that follows `<!-- output: COMMAND -->`.
set -e
cd "$(dirname "$(readlink -f "$0")")/.."
python3 - <<'PY'
import re, subprocess
text = open("README.md").read()
def fill(match):
    command = match.group(1)
    run = subprocess.run(command, shell=True, capture_output=True, text=True)
    return f"<!-- output: {command} -->\n```text\n{run.stdout.rstrip()}\n```"
text = re.sub(r"<!-- output: (.*?) -->\n```text\n.*?```", fill, text, flags=re.S)
open("README.md", "w").write(text)
PY
