#!/bin/sh
# Writes the measured parts of docs/REPLAY.md: each ```text block after `<!-- output: COMMAND -->`, and the tables
# between `<!-- tables -->` and `<!-- end of tables -->` from every recorded allocation stream. Streams are those of
# tests/data/rlhf, and of $HEADROOM_TRUTH/rlhf when that names a larger collection. HEADROOM: the binary.
set -e
cd "$(dirname "$(readlink -f "$0")")/.."
python3 - <<'PY'
import collections, glob, json, os, re, subprocess

headroom = os.environ.get("HEADROOM", "./headroom")


def run(arguments):
    done = subprocess.run([headroom, *arguments], capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise SystemExit(done.stderr)
    return done.stdout


def what_if(path, *more):
    return json.loads(run(["replay", path, "--json", "-", *more]))["devices"][0]


def gib(value):
    return f"{value / 2**30:.2f}"


def percent(part, whole):
    return f"{100 * part / whole:.1f} %"


def phase_names(path):
    """The recorder's own names, where the case lies beside its stream."""
    case = path.replace(".trace.json.gz", ".json")
    if not os.path.exists(case):
        return {}
    phases = json.load(open(case))["phases"]
    return {f"phase {i}": f"{p['phase']}, step {p['step']}" for i, p in enumerate(phases)}


def streams():
    found = {}
    for folder in ["tests/data/rlhf", os.path.join(os.environ.get("HEADROOM_TRUTH", "."), "rlhf")]:
        for path in sorted(glob.glob(os.path.join(folder, "*.trace.json.gz"))):
            found.setdefault(os.path.basename(path), path)
    return found.values()


def rows_of(device):
    return [r for r in device["what_if"]["settings"] if "skipped" not in r]


def tables():
    runs, over, driver, limited, wins = [], collections.defaultdict(list), collections.defaultdict(list), \
        collections.defaultdict(list), collections.Counter()
    for path in streams():
        device = what_if(path)
        now, names = device["what_if"]["as_recorded"], phase_names(path)
        need = now["peak_allocated"]
        half = (need + now["peak_reserved"]) // 2
        best = min(rows_of(device), key=lambda r: r["peak_reserved"])
        wins[best["name"]] += 1
        for row in rows_of(device):
            over[row["name"]].append(row["peak_reserved"] / need - 1)
            driver[row["name"]].append(row["device_allocs"] + row["device_frees"])
        for row in rows_of(what_if(path, "--limit", f"{half}B")):
            limited[row["name"]].append(row)
        split, free = device["fragmentation"]["inactive_split"], device["fragmentation"]["free"]
        phase = device["peak_reserved"].get("phase", "")
        runs.append(f"| {os.path.basename(path).replace('.trace.json.gz', '')} | {gib(need)} | {gib(now['peak_reserved'])} | "
                    f"{percent(now['peak_reserved'] - need, now['peak_reserved'])} | "
                    f"{percent(free, device['peak_reserved']['reserved'])} | {percent(split, device['peak_reserved']['reserved'])} | "
                    f"{names.get(phase, phase)} | {best['name']} | {gib(best['peak_reserved'])} |")
    out = ["| run | allocated peak, GiB | reserved peak, GiB | between the peaks | free at the reserved peak | of it in split segments "
           "| reserved peak in | least reserving setting | GiB |", "|---|---|---|---|---|---|---|---|---|", *runs, "",
           f"What each setting reserves above the allocated peak of the recorded run, over {len(runs)} runs, and what becomes of "
           "them when the process may hold only the mean of its allocated and reserved peak:", "",
           "| setting | mean | worst | least in runs | driver calls, mean | fits at half | retries at half, mean |",
           "|---|---|---|---|---|---|---|"]
    for name, at_half in limited.items():
        shares = over.get(name)
        fits = [r for r in at_half if r["fits"]]
        retries = f"{sum(r['retries'] for r in fits) / len(fits):.1f}" if fits else "-"
        free = f"{percent(sum(shares) / len(shares), 1)} | {percent(max(shares), 1)} | {wins[name]} | " \
               f"{sum(driver[name]) / len(driver[name]):.0f}" if shares else "- | - | - | -"
        out.append(f"| {name} | {free} | {len(fits)} of {len(at_half)} | {retries} |")
    return "\n".join(out)


def output(match):
    words = match.group(1).split()[1:]
    return f"<!-- output: {match.group(1)} -->\n```text\n{run(words).rstrip()}\n```"


text = open("docs/REPLAY.md").read()
text = re.sub(r"<!-- output: (.*?) -->\n```text\n.*?```", output, text, flags=re.S)
text = re.sub(r"(<!-- tables -->\n).*?(<!-- end of tables -->)", lambda m: f"{m.group(1)}{tables()}\n{m.group(2)}", text, flags=re.S)
open("docs/REPLAY.md", "w").write(text)
PY
