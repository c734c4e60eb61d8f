"""Prints docs/VERL_LAUNCHES.md: what Headroom says of the launches that verl's own scripts make.
Needs HEADROOM_TRUTH, the folder with verl/launches/RELEASE.jsonl. Argument: the headroom binary.

Each launch is given as a command, on the card that its script or verl's CI names (H100 where none is named). The release
is stated, as the checkout around a script would; the second table leaves it to the keys. Launches for NPUs are those
that say so (`trainer.device=npu`). What is asked for is a model that the script leaves to its user (`/path/to/model`) or a
cluster's size; such launches are run once more with what the message asks for. The others that are not read are listed
below with their reason: each is a check that verl makes itself, or a model whose shape nobody has published.
"""
import collections, concurrent.futures, json, os, re, subprocess, sys

HEADROOM, TRUTH = sys.argv[1], os.environ["HEADROOM_TRUTH"]
KINDS = ["fits", "does not fit", "open", "asked for", "refused by verl", "not read", "NPU"]
VERL_REFUSES = ["expected a divisor", "expected tensor x data", "positions, found", "KEY=VALUE", "divide over",
                "expected as many GPUs", "use_remove_padding", "expected a multiple"]
ASKS = ["give --model", 'found ""']
GIVEN = {"671b": "deepseek-ai/DeepSeek-V3", "dspk": "deepseek-ai/DeepSeek-V3", "70b": "Qwen/Qwen2-72B-Instruct",
         "32b": "Qwen/Qwen2.5-32B", "moonlight": "moonshotai/Moonlight-16B-A3B"}


def estimate(row, release, more=()):
    program = [row["module"]] if row["module"].endswith(".py") else ["-m", row["module"]]
    flags = ["--set", "headroom.versions.verl=" + release] if release else []
    run = subprocess.run([HEADROOM, "estimate", "--quiet", "--gpu", row.get("card") or "h100", *flags, *more, "--", "python3",
                          *program, *row["words"]], capture_output=True, text=True)
    return run.returncode, (run.stdout if run.returncode in (0, 3, 5) else run.stderr).strip().splitlines()[-1:]


def judge(row, release):
    """The launch's kind, whether it is read once what it leaves out is given, and the message."""
    code, text = estimate(row, release)
    text = text[0] if text else ""
    if code in (0, 3, 5):
        return {0: "fits", 3: "does not fit", 5: "open"}[code], True, text
    text = re.sub(r"^headroom: (command line: )?", "", text)
    if "found npu" in text:
        return "NPU", False, text
    if any(part in text for part in ASKS) and "no preset" not in text:
        model = next((m for part, m in GIVEN.items() if part in row["script"]), "Qwen/Qwen2.5-7B-Instruct")
        code, _ = estimate(row, release, ["--model", model, "--nodes", "1", "--gpus-per-node", "8"]
                           if 'found ""' in text else ["--model", model])
        return "asked for", code in (0, 3, 5), text
    return ("refused by verl" if any(part in text for part in VERL_REFUSES) else "not read"), False, text


def table(releases, stated):
    listed = []
    print("| release | launches | NPU | of the others | " + " | ".join(KINDS[:-1]) +
          " | read, all that is asked for given | of those that verl takes |")
    print("| --- |" + " ---: |" * (len(KINDS) + 4))
    for file in releases:
        release = file.removesuffix(".jsonl")
        rows = [json.loads(line) for line in open(os.path.join(TRUTH, "verl", "launches", file))]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            judged = list(pool.map(lambda row: judge(row, release.removesuffix(".dev") if stated else None), rows))
        counts = collections.Counter(kind for kind, _, _ in judged)
        others = len(rows) - counts["NPU"]
        read = sum(is_read for _, is_read, _ in judged)
        print(f"| {release} | {len(rows)} | {counts['NPU']} | {others} | " + " | ".join(str(counts[kind]) for kind in KINDS[:-1]) +
              f" | {read} ({100 * read / others:.1f} %) | {100 * read / (others - counts['refused by verl']):.1f} % |")
        listed += [(release, row["script"], kind, text) for row, (kind, _, text) in zip(rows, judged)]
    return listed


def main():
    releases = sorted(os.listdir(os.path.join(TRUTH, "verl", "launches")))
    print("# verl's own launches\n")
    print(__doc__.split("\n\n", 1)[1].strip() + "\n")
    listed = table(releases, True)
    print("\nThe release not stated:\n")
    table(releases, False)
    for kind in ("refused by verl", "not read", "open"):
        print(f"\n## {kind[0].upper() + kind[1:]}\n\n| release | script | why |\n| --- | --- | --- |")
        for release, script, of, text in listed:
            if of == kind:
                text = re.sub(r"^undetermined: .*?but ", "", text)
                print(f"| {release} | {script} | {text.replace('|', ' ')[:200]} |")


if __name__ == "__main__":
    main()
