"""Prints docs/SCRIPTS.md: what Headroom says of the scripts and recipes that other frameworks ship.
Arguments: the headroom binary, and a folder with a checkout of each framework, named as its repository is.

Every script that starts a training is given as it is: a file, or `bash FILE WORDS` where it wants words. TRL has no scripts
but the commands that head its example programs. The card is the one that the script names (NeMo RL's nodes of four
are GB200), else H100. Where a script leaves to its user what decides (a model, a number of nodes), it is asked for; such a
script is run once more with that, and its answer is the one counted. Nothing was changed in any file. Rows are as long as a
file lets them be: of the runs that do not fit at such lengths some ran, with shorter data. What is not answered stands below with its reason.
"""
import collections, concurrent.futures, glob, os, re, shlex, subprocess, sys

HEADROOM, ROOT = sys.argv[1], os.path.abspath(sys.argv[2])
CARDS = [(r"H20-3e", "h20_141gb"), (r"\bH20\b", "h20"), (r"\bH200\b", "h200"), (r"\bGB200\b", "gb200"), (r"A100[- ]80G", "a100_80gb")]
KINDS = {0: "fits", 3: "does not fit", 5: "open"}
MODEL = "Qwen/Qwen2.5-7B-Instruct"
OPT, LLAMA = ["facebook/opt-1.3b", "facebook/opt-350m"], ["meta-llama/Llama-2-7b-hf", "meta-llama/Llama-2-7b-hf"]
# What a user is asked for: a pattern of the answer, and the words that answer it (of the script's own text, where it says).
ASKED = [
    (r"deepseek|dsv3", lambda path, text: ["--model", "deepseek-ai/DeepSeek-V3"] if "give --model" in text else []),
    (r"", lambda path, text: ["--model", MODEL] if "give --model" in text else []),
    (r"", lambda path, text: ["--nodes", "8"] if "that divide the 8 GPUs" in text else []),
    (r"", lambda path, text: [word for key, value in blanks(path, text) for word in ("--set", f"{key}={value}")]),
]


def blanks(path, text):
    """Models that a script leaves blank, by the key that the answer names."""
    if not re.search(r"_name_or_path: expected a value, found none|pretrain: expected a value, found none", text):
        return []
    if "DeepSpeed-Chat" in path:
        size = re.search(r"run_([\d.]+b)", path)
        return [("actor_model_name_or_path", f"facebook/opt-{size.group(1)}"), ("critic_model_name_or_path", OPT[1])]
    return [("pretrain", MODEL), ("rm_pretrain", MODEL)]


def found(*patterns):
    return [p for pattern in patterns for p in sorted(glob.glob(os.path.join(ROOT, pattern), recursive=True))]


def chat_words(path):
    """What its README gives DeepSpeed-Chat's third step: an actor and a critic."""
    if "step3" not in path:
        return []
    size = re.search(r"run_([\d.]+b)", path)
    return LLAMA if "llama2" in path else ["facebook/opt-" + (size.group(1) if size else "1.3b"), OPT[1]]


def commands(path):
    """Of a program's text, the commands that head it."""
    text = open(path, errors="replace").read().split('"""')
    for block in re.findall(r"```\w*\n(.*?)```", text[1] if len(text) > 1 else "", re.S):
        for line in re.sub(r"\\\n", " ", block).splitlines():
            if re.search(r"(accelerate launch|python|trl) .*--", line) and not re.search("vllm-serve|uvicorn", line):
                yield line.strip().removesuffix("&").strip()


CHAT = "DeepSpeedExamples/applications/DeepSpeed-Chat/training/step*/training_scripts/"
SETS = {
    "ChatLearn": lambda: [(p, []) for p in found("ChatLearn/scripts/**/train*.sh")],
    "OpenRLHF": lambda: [(p, []) for p in found("OpenRLHF/examples/scripts/train*.sh")],
    # What a sweep starts is judged as what starts it.
    "DeepSpeed-Chat": lambda: [(p, chat_words(p)) for p in found(CHAT + "**/*.sh") if "run_single" not in p],
    "ColossalChat": lambda: [(p, []) for p in found("ColossalAI/applications/ColossalChat/examples/training_scripts/*.sh",
                                                    "ColossalAI/applications/ColossalChat/benchmarks/benchmark*.sh")],
    "EasyR1": lambda: [(p, []) for p in found("EasyR1/examples/**/*.sh")],
    "TRL": lambda: [(p, command) for p in found("trl/examples/scripts/**/*.py", "trl/trl/scripts/*.py") for command in commands(p)],
    "NeMo RL": lambda: [(p, []) for p in found("RL/examples/configs/*.yaml", "RL/examples/configs/recipes/llm/**/*.yaml")
                        if not re.search(r"/(vlm|sft_vlm|sft_avlm|audio)_?", p)],
}


def folder(path):
    """Where its users start a script."""
    for pattern in (r"(.*/step\d_\w+)/", r"(.*/trl)/"):
        if match := re.match(pattern, path):
            return match.group(1)
    return os.path.dirname(path)


def card_of(path):
    if re.search(r"RL/examples/configs/.*\dn4g", path):
        return "gb200"  # NeMo RL's nodes of four
    source = open(path, errors="replace").read()
    return next((card for pattern, card in CARDS if re.search(pattern, source)), "h100")


def estimate(path, words, card, more):
    given = ["--", *shlex.split(words)] if isinstance(words, str) else ["--", "bash", path, *words] if words else [path]
    run = subprocess.run([HEADROOM, "estimate", "--quiet", "--gpu", card, *more, *given], cwd=folder(path),
                         capture_output=True, text=True)
    lines = (run.stdout if run.returncode in KINDS else run.stderr).strip().splitlines()
    return run.returncode, lines[-1] if lines else ""


def judge(row):
    path, words = row
    card, more = card_of(path), []
    code, text = estimate(path, words, card, more)
    for _ in range(3):
        if code in KINDS:
            break
        asked = next((asked for pattern, of in ASKED if re.search(pattern, path, re.I) and (asked := of(path, text))), [])
        if not asked or asked[-1] in more:
            break
        more += asked
        code, text = estimate(path, words, card, more)
    text = text.replace(ROOT + "/", "").replace(os.path.expanduser("~"), "~")
    return dict(path=os.path.relpath(path, ROOT), kind=KINDS.get(code, "refused"), text=text, asked=" ".join(more), card=card)


def main():
    print("# Scripts that frameworks ship\n")
    print(__doc__.split("\n\n", 1)[1].strip() + "\n")
    print("| framework | scripts | fit | do not fit | open | refused | of the answered, asked for something first |\n"
          "| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    judged = {}
    for name, rows in SETS.items():
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            judged[name] = list(pool.map(judge, rows()))
        count = collections.Counter(row["kind"] for row in judged[name])
        asked = sum(bool(row["asked"]) and row["kind"] != "refused" for row in judged[name])
        print(f"| {name} | {len(judged[name])} | {count['fits']} | {count['does not fit']} | {count['open']} | "
              f"{count['refused']} | {asked} |")
    for name, rows in judged.items():
        others = [row for row in rows if row["kind"] != "fits"]
        if not others:
            continue
        print(f"\n## {name}\n\n| script | card | given | answer | why |\n| --- | --- | --- | --- | --- |")
        for row in others:
            text = re.sub(r"^headroom: (command line: )?", "", row["text"])
            text = re.sub(r"^undetermined: .*?but ", "", text) if row["kind"] == "open" else text
            text = re.sub(r"^does not fit: ", "", text)
            print(f"| {row['path'].split('/', 1)[1]} | {row['card']} | {row['asked']} | {row['kind']} | "
                  f"{text.replace('|', ' ')[:220]} |")


if __name__ == "__main__":
    main()
