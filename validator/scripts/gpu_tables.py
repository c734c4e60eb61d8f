"""Writes the tables of docs/GPU.md from committed results, between its markers.

usage: python3 validator/scripts/gpu_tables.py          (from anywhere; --check fails where the document is out of date)

validator/results/*/validate.jsonl holds one line a job: {"name": …, "validation": headroom.validation/1}; `pytorch` beside
it the recordings that gave the third column. Where a job was run on several days, the newest folder counts.
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "GPU.md"
BEGIN, END = "<!-- tables: gpu_tables.py -->\n", "<!-- end of tables -->\n"


def gib(size):
    return f"{size / 2**30:.2f}"


def newest_runs():
    runs = {}
    for path in sorted(ROOT.glob("validator/results/*/validate.jsonl"), key=lambda p: p.parent.name[-10:]):
        for line in path.read_text().splitlines():
            run = json.loads(line)
            runs[run["name"]] = (path.parent, run["validation"])
    return runs


def percent(errors):
    if not errors["phases"]:
        return "–"
    return f"{100 * errors['mean']:.2f} % / {100 * errors['worst']:.2f} %"


def overview(runs):
    yield "| job | card | ranks | phases | device peak against probe, mean / worst | reserved against PyTorch, mean / worst | operations | without a kernel |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for name, (_, v) in runs.items():
        present = v.get("present", {"ranks": 1, "of_job": 1})
        ranks = str(present["ranks"]) if present["ranks"] == present["of_job"] else f"{present['ranks']} of {present['of_job']}"
        operations = sum(kind["operations"] for kind in v["work"].values())
        touched = sum(kind["without_kernel"] for kind in v["work"].values())
        ends = " (out of memory, as asked)" if v["out_of_memory"] else ""
        card = v["gpu"].removeprefix("NVIDIA ").removesuffix(" 80GB HBM3")
        yield (f"| {name}{ends} | {card} | {ranks} | {v['probe_errors']['phases']} | {percent(v['probe_errors'])} | "
               f"{percent(v['pytorch_errors'])} | {operations:,} | {touched:,} |")


def highest(rows, *path):
    values = []
    for row in rows:
        for key in path:
            row = row.get(key) if row else None
        if row is not None:
            values.append(row)
    return max(values) if values else None


def columns(runs):
    yield "| job, peaks of the run, GiB | allocated: predicted | probe | PyTorch | reserved: predicted | probe | PyTorch |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for name, (folder, v) in runs.items():
        recorded = folder / "pytorch" / f"{name}.json"
        if not recorded.exists() or not v["phases"]:
            continue
        cells = [highest(v["phases"], who, what) for what in ("allocated", "reserved")
                 for who in ("predicted", "probe", "pytorch")]
        yield f"| {name} | " + " | ".join("–" if cell is None else gib(cell) for cell in cells) + " |"


def tables():
    runs = newest_runs()
    three = list(columns(runs))
    text = "\n".join(overview(runs)) + "\n"
    if len(three) > 2:
        text += "\nThe same job predicted, as a probe, and in real PyTorch on the same card (`validator/pytorch/rlhf_step.py`):\n\n"
        text += "\n".join(three) + "\n"
    return text


def main():
    document = DOCUMENT.read_text()
    head, rest = document.split(BEGIN)
    tail = rest.split(END)[1]
    made = head + BEGIN + "\n" + tables() + "\n" + END + tail
    if "--check" in sys.argv:
        sys.exit(made != document)
    DOCUMENT.write_text(made)


if __name__ == "__main__":
    main()
