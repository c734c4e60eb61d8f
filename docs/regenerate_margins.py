#!/usr/bin/env python3
"""Writes configs/margins.yaml: what a verdict keeps free of a card, out of the errors in docs/ACCURACY.md.

For each kind of phase, reserved peaks that were predicted too low: the worst one relative to what was measured, rounded up
to a half per cent of the card, and the worst one in bytes, rounded up to 256 MiB; the larger of both applies. Errors that
are too high cost room, not runs, and do not count; nor do the phases that build models (init), which no run peaks in.
No recording has a rollout engine beside the trainer: phases with one
take the trainer's margin and an estimate beside it (1 % of the card, 512 MiB).
"""
import math
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
ENGINE_PHASES = ["engine_init", "generate", "weight_sync", "wake", "validate"]
ENGINE_FRACTION, ENGINE_BYTES = 0.01, 512 << 20  # beyond the trainer's
BOUNDS = {"default": (0.03, 1 << 30), "engine": (0.05, 2 << 30)}
HEAD = """# What is kept free of a card for prediction error, by kind of phase: the larger of a part of the card and a size.
# Bounds: at most max(3 %, 1 GiB); where a rollout engine is awake max(5 %, 2 GiB).
# Made by docs/regenerate_margins.py from docs/ACCURACY.md: {phases} phases but init, {low} of them too low, at worst
# {worst:.2f} % and {worst_bytes:.0f} MiB (in {where}).
"""


def rows(text):
    """Run, phase, predicted and measured reserved peak of every phase of the corpus."""
    run = ""
    for line in text.splitlines():
        if line.startswith("## "):
            run = line[3:].strip()
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 9 and not cells[1].startswith("init") and re.fullmatch(r"-?\d+", cells[0]) and cells[5].isdigit() and cells[6].isdigit():
            yield f"{cells[1]} of {run}", int(cells[5]), int(cells[6])


def main():
    found = list(rows((ROOT / "docs/ACCURACY.md").read_text()))
    low = [(1 - predicted / measured, measured - predicted, where)
           for where, predicted, measured in found if predicted < measured]
    worst, _, where = max(low)
    worst_bytes = max(size for _, size, _ in low)
    fraction = math.ceil(200 * worst) / 200
    size = math.ceil(worst_bytes / (256 << 20)) * (256 << 20)
    values = {"default": (fraction, size), "engine": (fraction + ENGINE_FRACTION, size + ENGINE_BYTES)}
    text = HEAD.format(phases=len(found), low=len(low), worst=100 * worst, worst_bytes=worst_bytes / (1 << 20), where=where)
    for kind, (part, least) in values.items():
        assert part <= BOUNDS[kind][0] and least <= BOUNDS[kind][1], f"{kind}: the errors are beyond the bounds"
        text += f"{kind}: {{fraction: {part:g}, bytes: {least >> 20}MiB}}\n"
    text += "phases:\n" + "".join(f"  {phase}: engine\n" for phase in ENGINE_PHASES)
    (ROOT / "configs/margins.yaml").write_text(text)


if __name__ == "__main__":
    main()
