"""Prints the sections of docs/TIME.md on times that others publish. Needs HEADROOM_TRUTH, the folder with
nemo-rl/perf.json and the recipes that its rows name, and verl/measured.json.

NeMo RL: a row's average length is of generated tokens; tokens a second and the step's time imply the whole length, which
is a prompt longer. Asynchronous rows print means of ratios, which imply nothing: their prompts are those of the others.
The longest sequence is the recipe's. A run whose pools work side by side takes as long as the slower one.

verl: what a row states of its settings becomes Hydra overrides over verl's defaults; rows that leave out the engine's
ranks or the lengths, or ran on cards that no profile describes, are listed as not predicted.
"""
import itertools, json, os, re, statistics, subprocess, sys, tempfile

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


def prompt_of(row):
    """Tokens of a prompt: what the row implies, where that can be one of these data sets' mathematical problems."""
    usual, least, most = 115, 90, 140
    implied = (row.get("implied_total_tokens_per_sample") or 0) - row["measured"]["g_average_seq_len_tokens"]
    return round(implied) if "async" not in row["id"] and least <= implied <= most else usual


def predict(row, path):
    gpu = "gb200" if "GB200" in row["hardware"]["gpu"] else "h100"
    model = ["--model", "deepseek-ai/DeepSeek-V3"] if "deepseek-v3" in row["id"] else []
    response = int(row["measured"]["g_average_seq_len_tokens"])
    lengths = f"prompt={prompt_of(row)},response={response},max={row['config']['table']['t_max_seq']}"
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


# --- verl

# Short names of settings in measured.json, where they belong in verl's configuration.
PLACES = {
    "model": ["actor_rollout_ref.model.path"],
    "lora_rank": ["actor_rollout_ref.model.lora_rank"], "lora_alpha": ["actor_rollout_ref.model.lora_alpha"],
    "target_modules": ["actor_rollout_ref.model.target_modules"],
    "strategy": ["actor_rollout_ref.actor.strategy"], "actor.strategy": ["actor_rollout_ref.actor.strategy"],
    "param_offload": ["actor_rollout_ref.actor.fsdp_config.param_offload"],
    "fsdp param_offload": ["actor_rollout_ref.actor.fsdp_config.param_offload"],
    "optimizer_offload": ["actor_rollout_ref.actor.fsdp_config.optimizer_offload"],
    "fsdp optimizer_offload": ["actor_rollout_ref.actor.fsdp_config.optimizer_offload"],
    "ref param_offload": ["actor_rollout_ref.ref.fsdp_config.param_offload"],
    "enable_gradient_checkpointing": ["actor_rollout_ref.model.enable_gradient_checkpointing"],
    "use_remove_padding": ["actor_rollout_ref.model.use_remove_padding"],
    "use_kl_loss": ["actor_rollout_ref.actor.use_kl_loss"], "entropy_coeff": ["actor_rollout_ref.actor.entropy_coeff"],
    "ulysses_sequence_parallel_size": ["actor_rollout_ref.actor.ulysses_sequence_parallel_size"],
    "ppo_mini_batch_size": ["actor_rollout_ref.actor.ppo_mini_batch_size"],
    "actor.ppo_mini_batch_size": ["actor_rollout_ref.actor.ppo_mini_batch_size"],
    "ppo_micro_batch_size": ["actor_rollout_ref.actor.ppo_micro_batch_size"],
    "ppo_micro_batch_size_per_gpu": ["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"],
    "actor.ppo_micro_batch_size_per_gpu": ["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"],
    "rollout.log_prob_micro_batch_size": ["actor_rollout_ref.rollout.log_prob_micro_batch_size",
                                          "actor_rollout_ref.ref.log_prob_micro_batch_size"],
    "log_prob_micro_batch_size_per_gpu": ["actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu",
                                          "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu"],
    "use_dynamic_bsz": ["actor_rollout_ref.actor.use_dynamic_bsz"],
    "ppo_max_token_len_per_gpu": ["actor_rollout_ref.actor.ppo_max_token_len_per_gpu"],
    "train_batch_size": ["data.train_batch_size"], "max_prompt_length": ["data.max_prompt_length"],
    "max_response_length": ["data.max_response_length"], "n_gpus_per_node": ["trainer.n_gpus_per_node"],
    "gpu_memory_utilization": ["actor_rollout_ref.rollout.gpu_memory_utilization"],
    "enforce_eager": ["actor_rollout_ref.rollout.enforce_eager"], "max_num_seqs": ["actor_rollout_ref.rollout.max_num_seqs"],
    "max_model_len": ["actor_rollout_ref.rollout.max_model_len"],
    "max_num_batched_tokens": ["actor_rollout_ref.rollout.max_num_batched_tokens"],
    "tensor_model_parallel_size": ["actor_rollout_ref.rollout.tensor_model_parallel_size"],
    "layered_summon": ["actor_rollout_ref.rollout.layered_summon"], "load_format": ["actor_rollout_ref.rollout.load_format"],
    "update_weights_bucket_megabytes": ["actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes"],
}
WHOLE = ("data.", "algorithm.", "trainer.", "actor_rollout_ref.", "critic.")
PHASES = {"gen_s": "generate", "old_log_prob_s": "actor_logprob", "ref_s": "ref_logprob", "values_s": "critic_values",
          "update_actor_s": "train_actor", "update_critic_s": "train_critic"}


def overrides(row):
    """Hydra's words for what the row states; a reason where it leaves out what decides seconds."""
    words, stated = [], set()
    for item in row["config"]:
        match = re.match(r"([\w. ]+?)=([^\s(]+)", item)
        if not match:
            continue
        key, value = match.group(1).strip(), match.group(2)
        if value == "not":
            return None, f"{key} is not stated"
        if key.startswith("rollout."):
            places = PLACES.get(key) or ["actor_rollout_ref." + key]
        else:
            places = PLACES.get(key) or ([key] if key.startswith(WHOLE) else [])
        for place in places:
            words.append(f"{place}={value}")
            stated.add(place)
    for need in ("actor_rollout_ref.model.path", "data.train_batch_size", "data.max_response_length",
                 "actor_rollout_ref.rollout.tensor_model_parallel_size"):
        if need not in stated:
            return None, f"{need} is not stated"
    if "actor_rollout_ref.rollout.name" not in stated:
        words.append("actor_rollout_ref.rollout.name=vllm")
    if "trainer.n_gpus_per_node" not in stated:
        nodes = row["hardware"].get("nodes") or 1
        words += [f"trainer.nnodes={nodes}", f"trainer.n_gpus_per_node={row['hardware']['gpus'] // nodes}"]
    return words, None


def card_of(row):
    text = row["hardware"].get("gpu", "")
    for name in ("H200", "H100", "H800", "H20", "A100", "A800", "L40S", "GB200"):
        if name in text:
            return {"A100": "a100-80gb", "A800": "a800-80gb"}.get(name, name.lower())
    return None


def lengths_of(measured, longest):
    """What `--lengths` takes: of prompts and responses, as a log tells them apart."""
    def of(*keys):
        return next((measured[k] for k in keys if isinstance(measured.get(k), (int, float))), None)
    prompt = of("prompt_length_mean")
    response = of("response_length_mean", "response_length_mean_derived", "mean_response_length_tokens")
    return f"prompt={prompt},response={response},max={longest}" if prompt and response else None


def predict_verl(row):
    words, reason = overrides(row)
    card, values = card_of(row), dict(word.split("=", 1) for word in words or ())
    if reason is None:
        longest = int(values.get("data.max_prompt_length", 512)) + int(values["data.max_response_length"])
        lengths = lengths_of(row["measured"], longest)
        reason = (None if card else "the card is not known") or (None if lengths else "lengths are not stated")
    if reason:
        return None, reason
    with tempfile.NamedTemporaryFile(suffix=".args", mode="w") as launch, tempfile.NamedTemporaryFile(suffix=".json") as out:
        launch.write("\n".join(words))
        launch.flush()
        run = subprocess.run([HEADROOM, "estimate", launch.name, "--framework", "verl", "--gpu", card, "--lengths",
                              lengths, "--json", out.name, "--quiet"], capture_output=True, text=True)
        if run.returncode not in (0, 3, 5):
            return None, (run.stderr.strip().splitlines() or ["no message"])[-1]
        report = json.load(open(out.name))
    phases = {}
    for device in report["devices"]:
        last = max(phase["step"] for phase in device["phases"])
        for p in device["phases"]:
            if p["step"] == last:
                phases[p["phase"]] = max(phases.get(p["phase"], 0), p["seconds"])
    return phases, None


def verl_section():
    rows, refused = [], []
    for row in json.load(open(os.path.join(TRUTH, "verl", "measured.json"))):
        if not isinstance(row["measured"], dict):
            continue
        measured = {phase: row["measured"][key] for key, phase in PHASES.items()
                    if isinstance(row["measured"].get(key), (int, float))}
        if not measured:
            continue
        phases, reason = predict_verl(row)
        if phases is None:
            refused.append((row["id"], reason))
            continue
        # Weights are sent within the generation's timer, where a log has none for them.
        if "generate" in phases and not any(key.startswith("update_weights_s") for key in row["measured"]):
            phases["generate"] += phases.get("weight_sync", 0)
        rows += [(row["id"], phase, phases[phase], seconds) for phase, seconds in measured.items() if phases.get(phase)]
    print("\n# Phases that verl's public logs state\n")
    if rows:
        print(summary([(p, m) for _, _, p, m in rows], "phases"))
        print("| log | phase | predicted s | logged s | error % |\n| --- | --- | ---: | ---: | ---: |")
        for name, phase, predicted, measured in rows:
            print(f"| {name} | {phase} | {predicted:.1f} | {measured:.1f} | {100 * (predicted / measured - 1):+.0f} |")
    reasons = {}
    for name, reason in refused:
        reasons.setdefault(re.sub(r"/tmp/\S+:", "", reason), []).append(name)
    if reasons:
        print("\nNot predicted:\n")
        for reason, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
            print(f"* {reason}: {', '.join(names)}")


# --- Both

def summary(pairs, what):
    errors = sorted(abs(p / m - 1) for p, m in pairs)
    within = sum(1 / 1.6 <= p / m <= 1.6 for p, m in pairs)
    return (f"{len(pairs)} {what}: median error {100 * statistics.median(errors):.0f} %, 90 % within "
            f"{100 * errors[int(0.9 * len(errors))]:.0f} %, worst {100 * errors[-1]:.0f} %; within a factor 1.6: {within} of "
            f"{len(pairs)} ({100 * within / len(pairs):.0f} %).\n")


def winners(pairs, apart=1.2):
    """Of pairs of runs whose measured times differ by more than that, those that a prediction puts in the right order."""
    right = total = 0
    for (p, m), (q, n) in itertools.combinations(pairs, 2):
        if max(m, n) / min(m, n) > apart:
            total += 1
            right += (p < q) == (m < n)
    return right, total


def main():
    nemo_section()
    verl_section()


def nemo_section():
    rows, refused = [], []
    for row in json.load(open(os.path.join(TRUTH, "nemo-rl", "perf.json"))):
        measured = row.get("measured", {}).get("total_step_time_s")
        path = recipe_of(row)
        if not measured or not path or "superseded" in row["id"]:
            continue
        predicted, note = predict(row, path)
        (rows if predicted else refused).append((row["id"], row["hardware"], predicted, measured, note))
    print("\n# Step times that NVIDIA publishes for NeMo RL\n")
    print(summary([(p, m) for _, _, p, m, _ in rows], "rows"))
    everywhere = winners([(p, m) for _, _, p, m, _ in rows])
    alike = [0, 0]  # one model on one kind of card, whatever the layout, release and number of GPUs
    by_model = {}
    for name, hardware, predicted, measured, _ in rows:
        model = re.sub(r"^nemo-perf-v[\d.]+-|-\d+n\d+g.*$", "", name)
        by_model.setdefault(model, []).append((predicted, measured))
    for pairs in by_model.values():
        right, total = winners(pairs)
        alike[0] += right
        alike[1] += total
    print(f"The faster of two runs that differ by more than 20 % is named right in {everywhere[0]} of {everywhere[1]} pairs "
          f"({100 * everywhere[0] / everywhere[1]:.0f} %); of one model on one kind of card in {alike[0]} of {alike[1]} "
          f"({100 * alike[0] / max(1, alike[1]):.0f} %).\n")
    print("| row | GPUs | predicted s | published s | error % | predicted phases, s |")
    print("| --- | ---: | ---: | ---: | ---: | --- |")
    for name, hardware, predicted, measured, note in rows:
        print(f"| {name} | {hardware.get('gpus')} | {predicted:.1f} | {measured:.1f} | {100 * (predicted / measured - 1):+.0f} "
              f"| {note} |")
    for name, _, _, _, note in refused:
        print(f"\nNot predicted: {name}: {note}")


if __name__ == "__main__":
    main()
