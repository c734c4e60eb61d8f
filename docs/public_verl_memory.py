"""Prints docs/VERL_MEASURED.md: PyTorch's counters in public logs of verl against the prediction at the logged lengths.
Needs HEADROOM_TRUTH, the folder with verl/measured.json. Argument: the headroom binary.

`perf/max_memory_*` are the highest values so far of PyTorch's counters of rank 0: those of the trainer, and what a rollout
engine in the same process has in its sleeping pool (weights and KV cache), whether that is mapped or not. So the pool is
added where the engine has no process of its own, from the engine's start on. The counters keep the largest micro-batch
of the run: at the mean length stated, longer by what the largest of as many micro-batches is expected to be (the spread
of configs/lengths).

What is not stated beside a log but stands in it is taken from there: a LoRA run's engine settings from the script at its
head (with vLLM's first engine, by its backend for attention), and PyTorch 2.7 from 2025-06-18 on (line
numbers in its warnings; before, NCCL says 2.21).

Rows marked * ran a script changed in ways that nobody recorded. The reserved counter goes beyond the card where a pool
was mapped anew, by how much is not known; without an engine in the process it is the trainer's own.
"""
import json, math, os, subprocess, sys, tempfile

from public_step_times import TRUTH, HEADROOM, card_of, overrides

GIB = 2**30
SPREAD = {"gsm8k": 147, "math": 430}  # configs/lengths
STEPS = 100  # of logs that do not say how many
HEADS = {"verl-log-grpo-lora-qwen2.5-7b-gsm8k": ["actor_rollout_ref.rollout.tensor_model_parallel_size=2",
                                                 "actor_rollout_ref.rollout.gpu_memory_utilization=0.2"]}
NEWER_LORA = "2025-06-18"


def data_of(row):
    text = " ".join(row["config"]).lower()
    return "math" if "data=math" in text or "gsm8k+math" in text else "gsm8k"


def words_of(row):
    """The row's settings as Hydra's words, with what stands in its prose; a reason where it leaves out what decides."""
    text = " ".join(row["config"])
    if "trtllm" in text:
        return None, "how TensorRT-LLM takes its weights has no program"
    row = dict(row, config=[word for word in row["config"] if "not read" not in word] +
               [word.replace("actor_rollout_ref.", "") for word in HEADS.get(row["id"], [])])
    words, reason = overrides(row)
    if words is None:
        return None, reason
    words.append("algorithm.adv_estimator=" + ("gae" if "PPO" in text else "grpo"))
    if "backend=megatron" in text:
        ranks = 1 if "train TP=1" in text else 2
        words += [f"{role}.strategy=megatron" for role in ("actor_rollout_ref.actor", "critic")]
        words += [f"actor_rollout_ref.actor.megatron.{what}_offload=true" for what in ("param", "optimizer", "grad")]
        words += ["actor_rollout_ref.ref.megatron.param_offload=true",
                  f"actor_rollout_ref.actor.megatron.tensor_model_parallel_size={ranks}"]
    elif "backend=fsdp2" in text:
        words += ["actor_rollout_ref.actor.strategy=fsdp2", "actor_rollout_ref.ref.fsdp_config.param_offload=true",
                  "actor_rollout_ref.model.use_remove_padding=true"]
    if "2025" in row["framework"]:
        words.append("headroom.versions.verl=0.4.1")
    if "lora" in row["id"] and row["date"] >= NEWER_LORA:
        words.append("headroom.versions.torch=2.7.0")
    return words, None


def largest_of(count):
    """Expected largest of so many draws, in standard deviations (Blom)."""
    wanted, low, high = (count - 0.375) / (count + 0.25), 0.0, 10.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if 1 - math.erfc(middle / math.sqrt(2)) / 2 < wanted else (low, middle)
    return low


def with_lengths(words, row):
    """Caps as long as the sequences of the largest micro-batch of the run."""
    measured, values = row["measured"], dict(word.split("=", 1) for word in words)
    prompt, response = (measured.get(f"{what}_length_mean", measured.get(f"{what}_length_mean_median"))
                        for what in ("prompt", "response"))
    if not prompt or not response:
        return None
    gpus = row["hardware"]["gpus"]
    sequences = int(values["data.train_batch_size"]) * int(values.get("actor_rollout_ref.rollout.n", 1)) // gpus
    micro = int(values.get("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", 0))
    micro = micro or max(1, int(values.get("actor_rollout_ref.actor.ppo_micro_batch_size", gpus)) // gpus)
    count = (measured.get("steps_total") or STEPS) * sequences / micro
    response += largest_of(count) * SPREAD[data_of(row)] / math.sqrt(micro)
    # Beyond the responses' cap prompts vary.
    beyond = max(0, response - int(values["data.max_response_length"]))
    prompt = min(prompt + beyond, int(values["data.max_prompt_length"]))
    response -= beyond
    return [word for word in words if not word.startswith(("data.max_prompt", "data.max_resp"))] + [
        f"data.max_prompt_length={math.ceil(prompt)}", f"data.max_response_length={math.ceil(response)}"]


def predict(words, card, apart, environment=()):
    """For each counter the highest sum of the trainer and the pool that is there by then, both, and the phase."""
    with tempfile.NamedTemporaryFile(suffix=".args", mode="w") as launch, tempfile.NamedTemporaryFile(suffix=".json") as out:
        launch.write("\n".join(words))
        launch.flush()
        run = subprocess.run([HEADROOM, "simulate", launch.name, *environment, "--framework", "verl", "--gpu", card, "--json", out.name,
                              "--quiet", "--steps", "2", "--lengths", "caps"], capture_output=True, text=True)
        if run.returncode not in (0, 3, 5):
            return None, (run.stderr.strip().splitlines() or ["no message"])[-1].split(": ", 2)[-1]
        device = json.load(open(out.name))["devices"][0]
    whole = 0 if apart else sum(engine["weights"] + engine["kv_cache"] for engine in device.get("engines", []))
    peaks = {"allocated": (0, 0, 0, ""), "reserved": (0, 0, 0, "")}
    pool = 0
    for phase in device["phases"]:
        if phase["phase"] == "engine_init":
            pool = whole
        for process in phase["processes"]:
            if process["n_allocs"] == 0:
                continue
            for what in peaks:
                peak = process["peak_" + what]
                peaks[what] = max(peaks[what], (peak + pool, peak, pool, phase["phase"]))
    return peaks, None


def main():
    rows, left_out = [], {}
    for row in json.load(open(os.path.join(TRUTH, "verl", "measured.json"))):
        measured = row["measured"] if isinstance(row["measured"], dict) else {}
        logged = {what: measured.get(f"max_memory_{what}_gb_run_max", measured.get(f"max_memory_{what}_gb"))
                  for what in ("allocated", "reserved")}
        if not logged["allocated"]:
            continue
        words, reason = words_of(row)
        card = card_of(row)
        words = words and with_lengths(words, row)
        environment = ["--env", "VLLM_ATTENTION_BACKEND=XFORMERS"] if "lora" in row["id"] else []
        apart = "processes" in " ".join(row["config"])
        unknown = reason or "lengths or card are not stated"
        peaks, why = predict(words, card, apart, environment) if words and card else (None, unknown)
        if peaks is None:
            left_out.setdefault(why, []).append(row["id"])
            continue
        changed = "per-run overrides are not recorded" in row["notes"]
        rows.append((row["id"] + (" *" if changed else ""),
                     [(peaks[w][1] / GIB, peaks[w][2] / GIB, logged[w], peaks[w][3]) for w in ("allocated", "reserved")]))
    print("# Memory in public logs of verl\n")
    print(__doc__.split("\n\n", 1)[1].strip() + "\n")
    for index, what in enumerate(("allocated", "reserved")):
        for text, some in (("settings recorded", [r for n, r in rows if "*" not in n]), ("all", [r for _, r in rows])):
            errors = [abs((t + p) / m - 1) for r in some for t, p, m, _ in [r[index]]]
            print(f"* {what}, {text}: mean error {100 * sum(errors) / len(errors):.1f} %, worst {100 * max(errors):.0f} %, "
                  f"{len(errors)} logs")
    print("\n| log | counter | trainer, GiB | engine's pool | sum | logged | error % | the trainer's peak is in |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |")
    for name, counters in rows:
        for what, (trainer, pool, logged, phase) in zip(("allocated", "reserved"), counters):
            print(f"| {name} | {what} | {trainer:.2f} | {pool:.2f} | {trainer + pool:.2f} | {logged:.2f} | "
                  f"{100 * ((trainer + pool) / logged - 1):+.1f} | {phase} |")
    print("\nNot predicted:\n")
    for reason, names in left_out.items():
        print(f"* {reason}: {', '.join(names)}")


if __name__ == "__main__":
    main()
