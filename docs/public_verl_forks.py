"""Prints docs/VERL_FORKS.md: what Headroom says of the launch scripts of repositories that build on verl.
Arguments: the headroom binary, and a folder with their checkouts, each named OWNER+REPOSITORY.

A launch script is one that starts a program of verl's, or a copy of it (`main_…`), for training; on H100, the card
that no script names. What verl's own copy in such a repository has (examples, recipes, tests) is left out. What is asked for
is what a script leaves to its user: a model (`/path/to/model`), or a variable; such scripts are run once more with it.
Programs that generate, merge or train otherwise are no such launches, nor are those for NPUs.
"""
import collections, concurrent.futures, os, re, subprocess, sys

HEADROOM, FOLDER = sys.argv[1:3]
STARTS = re.compile(r"(-m\s+\S*\b|python3?\s+\S*)main_(?!gen|eval)\w+")
VERLS_OWN = re.compile(r"(^|/)(examples/(\w+_trainer|sglang_multiturn|tuning|sft|split_placement|ray|generation|slurm|"
                       r"data_preprocess|ppo)/|recipe/|tests/|[\w-]*verl[\w-]*/(examples|recipe|tests|scripts)/)")
KINDS = ["fits", "does not fit", "open", "asked for", "refused by verl", "not read"]
REFUSES = ["expected a divisor", "expected tensor x data", "positions, found", "divide over", "expected as many GPUs",
           "use_remove_padding", "expected a multiple", "found npu"]


def scripts(repository):
    root = os.path.join(FOLDER, repository)
    for folder, _, files in os.walk(root):
        for file in sorted(files):
            path = os.path.join(folder, file)
            if not file.endswith((".sh", ".slurm", ".bash")) or VERLS_OWN.search(os.path.relpath(path, root)):
                continue
            text = open(path, errors="replace").read()
            if "npu" not in file and STARTS.search(re.sub(r"^\s*#.*", "", text, flags=re.M)):
                yield path


def estimate(path, *more):
    run = subprocess.run([HEADROOM, "estimate", "--quiet", "--gpu", "h100", *more, os.path.basename(path)], capture_output=True,
                         text=True, cwd=os.path.dirname(path))
    text = (run.stdout if run.returncode in (0, 3, 5) else run.stderr).strip().splitlines()
    return run.returncode, text[-1] if text else ""


def judge(path):
    """The script's kind, whether it is read once what it leaves out is given, and the message."""
    code, text = estimate(path)
    given = []
    first, said = code, text
    while code not in (0, 3, 5) and len(given) < 12:
        variable = re.search(r"give --env (\w+)=VALUE", text) or re.search(r"\$(\w+): nothing sets it", text)
        if ("--model" in text) and "--model" not in given:
            given += ["--model", "Qwen/Qwen2.5-7B-Instruct"]
        elif variable:
            model = re.search("MODEL|LLM|PATH|CKPT", variable[1])
            given += ["--env", variable[1] + "=" + ("Qwen/Qwen2.5-7B-Instruct" if model else "8")]
        else:
            break
        code, text = estimate(path, *given)
    if first in (0, 3, 5):
        return {0: "fits", 3: "does not fit", 5: "open"}[first], True, said
    if given and code in (0, 3, 5):
        return "asked for", True, said
    return ("refused by verl" if any(part in text for part in REFUSES) else "not read"), False, text


def main():
    print("# Launch scripts of repositories that build on verl\n")
    print(__doc__.split("\n\n", 1)[1].strip() + "\n")
    rows, listed = [], []
    for repository in sorted(os.listdir(FOLDER)):
        paths = list(scripts(repository))
        if not paths:
            continue
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            judged = list(pool.map(judge, paths))
        counts = collections.Counter(kind for kind, _, _ in judged)
        rows.append((repository.replace("+", "/"), len(paths), counts, sum(read for _, read, _ in judged)))
        listed += [(repository.replace("+", "/"), os.path.relpath(path, os.path.join(FOLDER, repository)), kind, text)
                   for path, (kind, read, text) in zip(paths, judged) if not read]
    every, read = sum(row[1] for row in rows), sum(row[3] for row in rows)
    print(f"**{read} of {every} launch scripts of {len(rows)} repositories are read ({100 * read / every:.1f} %).**\n")
    print("| repository | launch scripts | " + " | ".join(KINDS) + " | read, what is asked for given |")
    print("| --- |" + " ---: |" * (len(KINDS) + 2))
    for repository, count, counts, good in rows:
        print(f"| [{repository}](https://github.com/{repository}) | {count} | " +
              " | ".join(str(counts[kind]) for kind in KINDS) + f" | {good} |")
    print("\n## Not read\n\n| repository | script | why |\n| --- | --- | --- |")
    for repository, script, kind, text in listed:
        text = re.sub(r"^headroom: ", "", text).replace(script, "").replace("|", " ")
        print(f"| {repository} | {script} | {text[:220]} |")


if __name__ == "__main__":
    main()
