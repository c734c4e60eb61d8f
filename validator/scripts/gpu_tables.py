"""Writes the tables of docs/GPU.md and the GPU part of docs/ACCURACY.md from committed results, between their markers
(at the end of a document that has none).

usage: python3 validator/scripts/gpu_tables.py          (from anywhere; --check fails where a document is out of date)

validator/results/*/validate.jsonl holds one line a job: {"name": …, "validation": headroom.validation/1}; `pytorch` beside
it the recordings that gave the third column; summary.txt each part's exit code and seconds; calibrate*.json the times of
kernels, of which the last counts. Of a job that ran several times on one kind of card, the last counts.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT, ACCURACY = ROOT / "docs" / "GPU.md", ROOT / "docs" / "ACCURACY.md"
BEGIN, END = "<!-- tables: gpu_tables.py -->\n", "<!-- end of tables -->\n"


def gib(size):
    return f"{size / 2**30:.2f}"


def endings(folder):
    """Exit code and seconds of each validated job."""
    summary = folder / "summary.txt"
    if not summary.exists():
        return {}
    found = re.findall(r"^validate (.*): exit (\d+), (\d+) s$", summary.read_text(), re.MULTILINE)
    return {name: (code, seconds) for name, code, seconds in found}


def newest_runs():
    """(job, kind of card, how many present) -> folder, validation, (exit code, seconds)"""
    runs = {}
    for path in sorted(ROOT.glob("validator/results/*/validate.jsonl"), key=lambda p: (p.parent.name[-10:], p)):
        ends = endings(path.parent)
        for line in path.read_text().splitlines():
            run = json.loads(line)
            name, v = run["name"], run["validation"]
            runs[name, v["gpu"], v.get("present", {"ranks": 1})["ranks"]] = path.parent, v, ends.get(name)
    return runs


def card_of(measured):
    return measured["gpu"].removeprefix("NVIDIA ").removesuffix(" 80GB HBM3")


def percent(errors):
    if not errors["phases"]:
        return "–"
    return f"{100 * errors['mean']:.2f} % / {100 * errors['worst']:.2f} %"


def count_of(v, how):
    """Operations done that way; a dash in reports from before they were told apart."""
    counts = [kind[how] for kind in v["work"].values() if how in kind]
    return f"{sum(counts):,}" if counts else "–"


def overview(runs):
    yield "| job | card | ranks | phases | device peak against probe, mean / worst | reserved against PyTorch, mean / worst | operations | on the host | alone | without a kernel | exit | seconds |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for (name, *_), (_, v, ended) in runs.items():
        present = v.get("present", {"ranks": 1, "of_job": 1})
        ranks = str(present["ranks"]) if present["ranks"] == present["of_job"] else f"{present['ranks']} of {present['of_job']}"
        operations = sum(kind["operations"] for kind in v["work"].values())
        touched = sum(kind["without_kernel"] for kind in v["work"].values())
        host, alone = (count_of(v, how) for how in ("on_host", "alone"))
        ends = " (out of memory, as asked)" if v["out_of_memory"] else ""
        yield (f"| {name}{ends} | {card_of(v)} | {ranks} | {v['probe_errors']['phases']} | {percent(v['probe_errors'])} | "
               f"{'–' if v['out_of_memory'] else percent(v['pytorch_errors'])} | {operations:,} | {host} | {alone} | {touched:,} | "
               f"{' | '.join(ended or ('–', '–'))} |")


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
    for (name, *_), (folder, v, _) in runs.items():
        recorded = folder / "pytorch" / f"{name}.json"
        if not recorded.exists() or not v["phases"]:
            continue
        cells = [highest(v["phases"], who, what) for what in ("allocated", "reserved")
                 for who in ("predicted", "probe", "pytorch")]
        yield f"| {name}, {card_of(v)} | " + " | ".join("–" if cell is None else gib(cell) for cell in cells) + " |"


def heaviest(runs):
    """Of each job that ranks its operations, none of the ten that hold most memory or take most time may lack a kernel."""
    ranked = {key: v for key, (_, v, _) in runs.items() if "heaviest" in v}
    lacking = {(name, one["operation"]) for (name, *_), v in ranked.items() for ten in v["heaviest"].values()
               for one in ten if one["without_kernel"] > 0}
    if lacking:
        sys.exit("without a kernel, and among the ten heaviest: " + "; ".join(f"{o} of {job}" for job, o in sorted(lacking)))
    names = sorted({name for v in ranked.values() for name in v["without_kernel"]})
    return (f"In none of the {len(ranked)} jobs whose reports rank operations does one of the ten that hold most memory, or of "
            f"the ten that take most time, lack a kernel. Without one are, in some job: {', '.join(f'`{n}`' for n in names)}.")


def versions(runs):
    seen = {}
    for _, v, _ in runs.values():
        for what, version in v["versions"].items():
            seen.setdefault(what, set()).add(version)
    named = {"cuda": "CUDA", "driver": "driver", "nccl": "NCCL"}
    return ", ".join(f"{named.get(what, what)} {' and '.join(sorted(found))}" for what, found in sorted(seen.items()))


def profile_of(recording):
    """The shipped profile of a recording's cards; with several ranks the measured one that knows NCCL's part."""
    kind = "h200" if "H200" in recording["device"] else "h100"
    if recording.get("ranks", 1) == 1:
        return kind
    return str(sorted((ROOT / "configs/hardware/measured").glob(f"{recording['ranks']}x{kind}-*.yaml"))[-1])


def device_errors(path):
    """Relative errors of the device peaks that `headroom simulate` predicts for a run in real PyTorch: what it reserved at the
    peak and what it held outside its allocator at the phase's end."""
    recording = json.loads(path.read_text())
    command = [ROOT / "headroom", "simulate", path, "--framework", "torch", "--gpu", profile_of(recording), "--quiet", "--json", "-"]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    predicted = {(p["step"], p["phase"]): p["peak_device"] for p in report["devices"][0]["phases"]}
    errors = []
    for p in recording["phases"]:
        real = p["peak_reserved"] + p["device_used_end"] - p["reserved_end"]
        errors.append(predicted[p["step"], p["phase"]] / real - 1)
    return errors


def in_pytorch():
    """What a user compares: predictions with shipped profiles against PyTorch's own device use, without the probe."""
    jobs = {(path.stem, folder.name): device_errors(path) for folder in sorted(ROOT.glob("validator/results/*"))
            for path in sorted(folder.glob("pytorch/*.json"))}
    means = [sum(map(abs, errors)) / len(errors) for errors in jobs.values()]
    worst = max(max(map(abs, errors)) for errors in jobs.values())
    yield (f"Device peaks of `headroom simulate` with the shipped profiles against PyTorch's device use on these cards: "
           f"{len(jobs)} runs, mean {100 * sum(means) / len(means):.2f} %, worst phase {100 * worst:.2f} %.\n")
    yield "| run in PyTorch | cards | phases | mean | lowest | highest |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    for ((name, folder), errors), mean in zip(jobs.items(), means):
        yield (f"| {name} | {folder.split('-')[0].upper().replace('X', ' x ')} | {len(errors)} | {100 * mean:.2f} % | "
               f"{100 * min(errors):+.2f} % | {100 * max(errors):+.2f} % |")


def over_all(runs):
    """Jobs that ended, at full depth: the mean of their means and the worst phase of all."""
    def figures(errors_of):
        found = [errors_of(v) for (name, *_), (_, v, _) in runs.items()
                 if errors_of(v)["phases"] and not v["out_of_memory"] and "quick" not in name]
        return len(found), sum(e["mean"] for e in found) / len(found), max(e["worst"] for e in found)
    for errors_of, what in ((lambda v: v["probe_errors"], "device peak against the probe"),
                            (lambda v: v["pytorch_errors"], "reserved peak against PyTorch")):
        jobs, mean, worst = figures(errors_of)
        yield f"* {what}: {jobs} jobs, mean {100 * mean:.2f} %, worst phase {100 * worst:.2f} %"


def kernels():
    """Of each kind of card the newest calibration that timed kernels."""
    newest = {}
    for path in sorted(ROOT.glob("validator/results/*/calibrate*.json"), key=lambda p: (p.parent.name[-10:], p)):
        measured = json.loads(path.read_text())
        if any(r["kind"].startswith("kernel ") for r in measured["rates"]):
            newest[card_of(measured)] = path, measured
    rate = lambda r: r["bytes"] / r["seconds"]
    share, columns = {}, []
    for card, (path, measured) in sorted(newest.items()):
        copy = max(rate(r) for r in measured["rates"] if r["kind"] == "copy")
        flops = lambda kind: max(r["flops"] / r["seconds"] for r in measured["rates"] if r["kind"] == kind) / 1e12
        least = []
        for r in measured["rates"]:
            if not r["kind"].startswith("kernel "):
                continue
            name, part = r["kind"].removeprefix("kernel "), 100 * rate(r) / copy
            share.setdefault(name, {})[card, r["dtype"]] = part
            least.append((part, f"{name}, {r['dtype']}"))
        columns += [(card, dtype) for dtype in ("bf16", "fp32", "fp64", "bool")
                    if any((card, dtype) in by for by in share.values())]
        below = sorted(one for one in least if one[0] < 70)
        yield (f"* One {card} (`{path.relative_to(ROOT)}`): a copy moves {copy / 1e9:,.0f} GB/s; matrix products reach "
               f"{flops('matrix'):.0f} TFLOP/s, attention {flops('attention forward'):.0f} forward and "
               f"{flops('attention backward'):.0f} backward. The least share of the copy's rate is {min(least)[0]:.0f} % "
               f"({min(least)[1]}); {len(below)} of {len(least)} are below 70 %.")
    yield ""
    yield "| kernel, share of the copy's rate | " + " | ".join(f"{card} {dtype}" for card, dtype in columns) + " |"
    yield "| --- |" + " ---: |" * len(columns)
    for name, by in share.items():
        yield f"| {name} | " + " | ".join(f"{by[c]:.0f} %" if c in by else "–" for c in columns) + " |"


def jobs():
    runs = newest_runs()
    three = list(columns(runs))
    text = f"With {versions(runs)}. Jobs at full depth that ended:\n\n" + "\n".join(over_all(runs)) + "\n\n"
    text += "\n".join(overview(runs)) + "\n\n" + heaviest(runs) + "\n"
    if len(three) > 2:
        text += "\nThe same job predicted, as a probe, and in real PyTorch on the same card (`validator/pytorch/rlhf_step.py`):\n\n"
        text += "\n".join(three) + "\n"
    return text + "\n" + "\n".join(in_pytorch()) + "\n"


def between_markers(document, text):
    written = document.read_text()
    if BEGIN not in written:
        written += "\n" + BEGIN + END
    head, rest = written.split(BEGIN)
    return head + BEGIN + "\n" + text + "\n" + END + rest.split(END)[1]


def main():
    measured = jobs()
    of_accuracy = "## On GPUs\n\nThe predicted program as real work on a card (docs/GPU.md says what that proves). " + measured
    made = {DOCUMENT: between_markers(DOCUMENT, measured + "\nKernels:\n\n" + "\n".join(kernels()) + "\n"),
            ACCURACY: between_markers(ACCURACY, of_accuracy)}
    if "--check" in sys.argv:
        sys.exit(any(document.read_text() != text for document, text in made.items()))
    for document, text in made.items():
        document.write_text(text)


if __name__ == "__main__":
    main()
