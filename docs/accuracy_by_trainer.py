"""Writes docs/ACCURACY.md's part "By recorded trainer" out of the tables of docs/TRAINERS_RECORDED.md, between its markers
(before the tables of runs in a document that has none). Run by docs/regenerate_trainers_recorded.sh and
docs/regenerate_accuracy.sh.
"""
import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parent
ACCURACY, TRAINERS = FOLDER / "ACCURACY.md", FOLDER / "TRAINERS_RECORDED.md"
BEGIN, END = "<!-- by trainer -->\n", "<!-- end of by trainer -->\n"
NAMES = {
    "colossalchat-trainers": "ColossalChat: SFT, DPO, ORPO, reward model",
    "deepspeed-chat-runs": "DeepSpeed-Chat: steps 1, 2, 3",
    "nemo-rl-worker": "NeMo RL: DTensor worker",
    "openrlhf-actors": "OpenRLHF: actors, critic, reference, reward, SFT, DPO, reward model",
    "trl-trainers": "TRL: GRPO, PPO, DPO, SFT, reward",
}


def rows(text, heading):
    table = text[text.index(heading):].split("\n\n", 1)[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def worst(text, runs, reserved):
    """The phase of `runs` that is furthest off: its run, phase and error."""
    column, found = (7 if reserved else 4), ("", "", 0.0)
    for run in runs:
        section = re.search(rf"^## {re.escape(run)}\n(.*?)(?=^## |\Z)", text, re.M | re.S).group(1)
        for line in section.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if len(cells) > 7 and re.fullmatch(r"-?\d+", cells[0]) and abs(float(cells[column])) > abs(found[2]):
                found = run, cells[1].replace("\\_", "_"), float(cells[column])
    return found


def main():
    text = TRAINERS.read_text()
    out = [BEGIN, "## By recorded trainer\n\n",
           "Frameworks' own trainers and workers as they ran on a card, against the prediction for their own words or\n"
           "configuration (`docs/TRAINERS_RECORDED.md`, which shows every phase): errors of peaks in percent of what was\n"
           "measured.\n\n",
           "| trainers | phases | allocated, mean | worst | where | reserved, mean | worst | where |\n",
           "| --- | ---: | ---: | ---: | --- | ---: | ---: | --- |\n"]
    folder = FOLDER.parent / "tests" / "data"
    for corpus, exact, _, mean, most, _, reserved, most_reserved, _ in rows(text, "| recordings below"):
        if corpus not in NAMES:
            continue
        runs = [p.name.split(".json")[0] for p in sorted((folder / corpus).glob("*.json*"))]
        runs = [run for run in runs if f"\n## {run}\n" in text]
        at, off = worst(text, runs, False), worst(text, runs, True)
        out.append(f"| {NAMES[corpus]} | {exact.split()[-1]} | {float(mean):.3f} | {float(most):.2f} | {at[0]}, {at[1]} | "
                   f"{float(reserved):.2f} | {float(most_reserved):.1f} | {off[0]}, {off[1]} |\n")
    out.append(END)
    accuracy = ACCURACY.read_text()
    if BEGIN in accuracy:
        accuracy = accuracy[:accuracy.index(BEGIN)] + accuracy[accuracy.index(END) + len(END) + 1:]
    at = accuracy.index("| run | phases |")
    ACCURACY.write_text(accuracy[:at] + "".join(out) + "\n" + accuracy[at:])


if __name__ == "__main__":
    main()
