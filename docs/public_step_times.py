"""Prints the section of docs/TIME.md on step times that others publish. Needs HEADROOM_TRUTH, the folder with
nemo-rl/perf.json and the recipes that its rows name.

A row's average length is of generated tokens with the prompt; the longest is the recipe's. A run whose pools work side
by side takes as long as the slower one.
"""
import json, os, statistics, subprocess, sys, tempfile

TRUTH = os.environ["HEADROOM_TRUTH"]
HEADROOM = sys.argv[1] if len(sys.argv) > 1 else "./headroom"


def recipe_of(row):
    recipe = row["config"].get("recipe")
    if not recipe:
        return None
    for folder in (recipe.get("ref"), (recipe.get("commit") or "")[:12], "head"):
        path = os.path.join(TRUTH, "nemo-rl", "recipes", folder or "", recipe["path"])
        if folder and os.path.exists(path):
            return path
    return None


def predict(row, path):
    gpu = "gb200" if "GB200" in row["hardware"]["gpu"] else "h100"
    model = ["--model", "deepseek-ai/DeepSeek-V3"] if "deepseek-v3" in row["id"] else []
    lengths = f"mean={int(row['measured']['g_average_seq_len_tokens'])},max={row['config']['table']['t_max_seq']}"
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        run = subprocess.run([HEADROOM, "estimate", path, "--gpu", gpu, "--lengths", lengths, *model, "--json", out.name,
                              "--quiet"], capture_output=True, text=True)
        if run.returncode not in (0, 3, 5):
            return None, (run.stderr.strip().splitlines() or ["no message"])[-1]
        report = json.load(open(out.name))
    slowest, phases = 0, {}
    for device in report["devices"]:
        last = max(phase["step"] for phase in device["phases"])
        mine = [p for p in device["phases"] if p["step"] == last and p["phase"] != "save_checkpoint"]
        slowest = max(slowest, sum(p["seconds"] for p in mine))
        for p in mine:
            phases[p["phase"]] = max(phases.get(p["phase"], 0), p["seconds"])
    return slowest, ", ".join(f"{name} {seconds:.0f}" for name, seconds in phases.items() if seconds >= 0.5)


def main():
    rows, refused = [], []
    for row in json.load(open(os.path.join(TRUTH, "nemo-rl", "perf.json"))):
        measured = row.get("measured", {}).get("total_step_time_s")
        path = recipe_of(row)
        if not measured or not path or "superseded" in row["id"]:
            continue
        predicted, note = predict(row, path)
        (rows if predicted else refused).append((row["id"], row["hardware"], predicted, measured, note))
    errors = sorted(abs(p / m - 1) for _, _, p, m, _ in rows)
    print("\n# Step times that NVIDIA publishes for NeMo RL\n")
    print(f"{len(rows)} rows: median error {100 * statistics.median(errors):.0f} %, 90 % within "
          f"{100 * errors[int(0.9 * len(errors))]:.0f} %; within a factor 1.6: "
          f"{sum(1 / 1.6 <= p / m <= 1.6 for _, _, p, m, _ in rows)} of {len(rows)}.\n")
    print("| row | GPUs | predicted s | published s | error % | predicted phases, s |")
    print("| --- | ---: | ---: | ---: | ---: | --- |")
    for name, hardware, predicted, measured, note in rows:
        print(f"| {name} | {hardware.get('gpus')} | {predicted:.1f} | {measured:.1f} | {100 * (predicted / measured - 1):+.0f} "
              f"| {note} |")
    for name, _, _, _, note in refused:
        print(f"\nNot predicted: {name}: {note}")


if __name__ == "__main__":
    main()
