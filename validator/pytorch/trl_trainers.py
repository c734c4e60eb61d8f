"""Records TRL's own trainers: random weights, random tokens, phases as `headroom compare` reads them.

usage: trl_trainers.py CASES.json FOLDER [NAME...]     every case (or the named ones), each in a process of its own

A case: name; trainer (dpo, sft, reward, grpo, ppo); words, as TRL's command line takes them; model, values of a
config.json; prompt and response, tokens of every example; rows, examples (default 64). The trainer is not changed: its
methods are wrapped from outside. The head tensor of the dataset is made by TRL from text, of a tokenizer that has one word
a token. Rows: init; train_step of each micro-batch with loss_forward, ref_logprob and backward in it; optimizer_step; GRPO
and PPO as planner/frameworks/trl/case.h names them. A step that fails leaves what was measured until then.

A run that hangs is ended after LIMIT seconds (environment, 150) with the stacks of its threads on stderr.
"""

import faulthandler
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import time

import headroom_recorder as headroom

AUTO = {"dpo": "AutoModelForCausalLM", "sft": "AutoModelForCausalLM", "grpo": "AutoModelForCausalLM",
        "ppo": "AutoModelForCausalLM", "reward": "AutoModelForSequenceClassification"}


def word_tokenizer(vocabulary):
    """One word a token, so that lengths are exact: t5 … t(vocabulary-6)."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {"<unk>": 0, "<pad>": 1, "<eos>": 2, **{f"t{i}": i for i in range(3, vocabulary)}}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>", eos_token="<eos>",
                                   padding_side="left")


def text(count, vocabulary):
    return " ".join(f"t{random.randrange(5, vocabulary)}" for _ in range(count))


def examples(case, vocabulary):
    """Columns of the dataset. TRL appends an end-of-sequence token to completions, which response counts."""
    prompt, response, rows = case["prompt"], case["response"], case.get("rows", 64)
    draw = lambda count: [text(count, vocabulary) for _ in range(rows)]
    if case["trainer"] == "dpo":
        answer = lambda: [" " + words for words in draw(response - 1)]  # prompt and answer are joined as they stand
        return {"prompt": draw(prompt), "chosen": answer(), "rejected": answer()}
    if case["trainer"] == "reward":
        return {"chosen": draw(prompt + response - 1), "rejected": draw(prompt + response - 1)}
    if case["trainer"] == "sft":
        return {"text": draw(prompt + response - 1)}
    return {"prompt": draw(prompt)}


def saved_model(case, tokenizer, folder, auto, labels=None):
    """A folder as from_pretrained wants it; weights drawn on the card and given back to it."""
    import torch
    import transformers

    values = dict(case["model"])
    config = transformers.AutoConfig.for_model(values.pop("model_type"), **values)
    config.pad_token_id, config.eos_token_id, config.bos_token_id = 1, 2, None
    if labels:
        config.num_labels = labels
    with torch.device("cuda"):
        model = getattr(transformers, auto).from_config(config, dtype=torch.bfloat16)
    if getattr(model, "generation_config", None) is not None:
        model.generation_config.eos_token_id, model.generation_config.pad_token_id = 2, 1
    path = os.path.join(folder, auto)
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    parameters = sum(p.numel() for p in model.parameters())
    del model
    gc.collect()
    torch.cuda.empty_cache()
    return path, parameters


def build_plain(case, config, model_config, path, tokenizer, data):
    """DPO, SFT, reward and GRPO: as `trl NAME` builds them."""
    import trl
    from trl import get_peft_config

    dtype = getattr(model_config, "dtype", None) or "float32"
    config.model_init_kwargs = {"dtype": dtype}
    if getattr(model_config, "attn_implementation", None):
        config.model_init_kwargs["attn_implementation"] = model_config.attn_implementation
    more = {}
    if case["trainer"] == "grpo":
        more["reward_funcs"] = [lambda completions, **_: [len(c) + random.random() for c in completions]]
    trainer = {"dpo": "DPOTrainer", "sft": "SFTTrainer", "reward": "RewardTrainer", "grpo": "GRPOTrainer"}[case["trainer"]]
    return getattr(trl, trainer)(model=path, args=config, train_dataset=data, processing_class=tokenizer,
                                 peft_config=get_peft_config(model_config), **more)


def build_ppo(case, config, model_config, path, tokenizer, data, folder):
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification
    from trl.experimental.ppo import PPOTrainer

    dtype = getattr(torch, getattr(model_config, "dtype", None) or "float32")
    value, _ = saved_model(case, tokenizer, folder, "AutoModelForSequenceClassification", labels=1)
    policy = lambda: AutoModelForCausalLM.from_pretrained(path, dtype=dtype)
    scalar = lambda: AutoModelForSequenceClassification.from_pretrained(value, dtype=dtype, num_labels=1)
    data = data.map(lambda row: {"input_ids": tokenizer(row["prompt"])["input_ids"]}, remove_columns=["prompt"])
    return PPOTrainer(args=config, processing_class=tokenizer, model=policy(), ref_model=policy(), reward_model=scalar(),
                      value_model=scalar(), train_dataset=data, eval_dataset=data.select(range(8)))


def wrap(owner, name, phase, begins=None):
    """Measures calls of owner.name under `phase`, a name or a function of the call's arguments."""
    import functools

    call = getattr(owner, name)

    @functools.wraps(call)
    def measured(*args, **kwargs):
        if begins:
            begins()
        with headroom.phase(phase(*args, **kwargs) if callable(phase) else phase):
            return call(*args, **kwargs)

    setattr(owner, name, measured)


def mark_plain(case, trainer, adapters):
    # GRPO: a step is a call of training_step, as planner/frameworks/trl/case.h counts them; else an optimizer's.
    online = case["trainer"] == "grpo"
    wrap(trainer, "training_step", "train_step", begins=headroom.step if online else None)
    wrap(trainer, "compute_loss", "loss_forward")
    wrap(trainer.accelerator, "backward", "backward")
    if case["trainer"] == "grpo":
        rolling = []
        rollout = trainer._generate_and_score_completions

        def rolled(*args, **kwargs):
            rolling.append(1)
            try:
                with headroom.phase("rollout"):
                    return rollout(*args, **kwargs)
            finally:
                rolling.pop()

        trainer._generate_and_score_completions = rolled
        wrap(trainer, "_generate_single_turn", "generate")
        wrap(trainer, "_calculate_rewards", "reward")
        reference = lambda model: model is trainer.ref_model or (adapters and trainer.args.beta)
        wrap(trainer, "_get_per_token_logps_and_entropies",
             lambda model, *_, **__: "forward_logps" if not rolling else "ref_logprob" if reference(model) else "old_logprob")
    wrap_optimizer(trainer, None if online else headroom.step)


def wrap_optimizer(trainer, begins):
    """The optimizer is made when training begins. `begins` is called where the trainer begins a step of it."""
    from transformers import TrainerCallback

    class Marks(TrainerCallback):
        def on_train_begin(self, *_, **__):
            wrap(trainer.optimizer, "step", "optimizer_step")

        def on_step_begin(self, *_, **__):
            if begins:
                begins()

    trainer.add_callback(Marks)


def mark_ppo(trainer):
    import trl.experimental.ppo.ppo_trainer as ppo

    wrap(ppo, "batch_generation", "generate", begins=headroom.step)
    wrap(ppo, "forward", lambda model, *_, **__: "ref_logprob" if model is trainer.ref_model else "forward_policy_value")
    wrap(ppo, "get_reward", lambda model, *_, **__: "reward" if model is trainer.reward_model else "critic_values")
    wrap(trainer.accelerator, "backward", "backward")
    wrap(trainer.optimizer, "step", "optimizer_step")


def config_of(case, words):
    from trl import DPOConfig, GRPOConfig, ModelConfig, RewardConfig, SFTConfig, TrlParser

    kinds = {"dpo": DPOConfig, "sft": SFTConfig, "reward": RewardConfig, "grpo": GRPOConfig}
    if case["trainer"] == "ppo":
        from trl.experimental.ppo import PPOConfig

        kinds["ppo"] = PPOConfig
    sys.argv = ["trl"] + words
    return TrlParser((kinds[case["trainer"]], ModelConfig)).parse_args_and_config(args=words)


def record(case, out):
    import accelerate
    import datasets
    import torch
    import transformers
    import trl

    torch.empty(1, device="cuda")
    torch.cuda.empty_cache()
    said = lambda what: print(f"{case['name']}: {what} {time.perf_counter() - BEGAN:.1f} s", file=sys.stderr, flush=True)
    said("imported")
    random.seed(0)
    vocabulary = case["model"]["vocab_size"]
    tokenizer = word_tokenizer(vocabulary)
    with tempfile.TemporaryDirectory() as folder:
        path, parameters = saved_model(case, tokenizer, folder, AUTO[case["trainer"]],
                                       1 if case["trainer"] == "reward" else None)
        said("model saved")
        words = ["--output_dir", folder, "--report_to", "none", "--save_strategy", "no", "--disable_tqdm", "true",
                 "--model_name_or_path", path] + case["words"]
        config, model_config = config_of(case, words)
        data = datasets.Dataset.from_dict(examples(case, vocabulary))
        kept = dict(case, parameters=parameters)
        headroom.start(out, kept)
        if case.get("snapshot"):  # sizes alone: stacks break chunked losses under a checkpoint
            torch.cuda.memory._record_memory_history(context=None, stacks="python", max_entries=500_000)
        with headroom.phase("init"):
            if case["trainer"] == "ppo":
                trainer = build_ppo(case, config, model_config, path, tokenizer, data, folder)
            else:
                trainer = build_plain(case, config, model_config, path, tokenizer, data)
        said("trainer made")
        if case["trainer"] == "ppo":
            mark_ppo(trainer)
        else:
            mark_plain(case, trainer, model_config.use_peft)
        trainer.train()
        said("trained")
        if case.get("snapshot"):
            torch.cuda.memory._dump_snapshot(out.replace(".json", ".pickle"))
        facts(case, out, trainer, config, {"torch": torch, "transformers": transformers, "trl": trl,
                                           "accelerate": accelerate, "datasets": datasets})


def joined(rows):
    """PPO's micro-batches and chunks of a step as one row a phase, as planner/frameworks/trl/case.h has them."""
    out = {}
    for row in rows:
        kept = out.setdefault((row["step"], row["phase"]), row)
        if kept is row:
            continue
        for key in ("peak_alloc", "peak_reserved", "peak_active"):
            kept[key] = max(kept[key], row[key])
        for key in ("n_allocs", "seconds"):
            kept[key] += row[key]
        for key in ("alloc_end", "reserved_end", "inactive_split_end", "segments", "retries"):
            kept[key] = row[key]
    return list(out.values())


def facts(case, out, trainer, config, modules):
    """What the run was made of, beside its phases."""
    with open(out) as file:
        record_ = json.load(file)
    if case["trainer"] == "ppo":
        record_["phases"] = joined(record_["phases"])
    optimizer = getattr(trainer.optimizer, "optimizer", trainer.optimizer)
    shown = ("bf16", "fp16", "gradient_checkpointing", "beta", "loss_type", "optim", "max_length", "packing",
             "gradient_accumulation_steps", "per_device_train_batch_size", "steps_per_generation")
    record_["versions"] = {name: module.__version__ for name, module in modules.items()}
    record_["args"] = {key: str(getattr(config, key)) for key in shown if hasattr(config, key)}
    record_["param_dtypes"] = sorted({str(p.dtype) for p in trainer.model.parameters()})
    record_["optimizer"] = [type(optimizer).__name__, {k: v for k, v in optimizer.defaults.items()
                                                       if k in ("fused", "foreach")}]
    with open(out, "w") as file:
        json.dump(record_, file)


def main():
    global BEGAN
    BEGAN = time.perf_counter()
    cases = {case["name"]: case for case in json.load(open(sys.argv[1]))}
    names, out = sys.argv[3:] or list(cases), sys.argv[2]
    if os.environ.get("TRL_CASE"):
        faulthandler.dump_traceback_later(int(os.environ.get("LIMIT", "150")), exit=True)
        record(cases[os.environ["TRL_CASE"]], os.path.join(out, os.environ["TRL_CASE"] + ".json"))
        sys.stdout.flush()
        return
    os.makedirs(out, exist_ok=True)
    beside = int(os.environ.get("BESIDE", "1"))
    running = []
    for name in names:
        while len([p for p in running if p.poll() is None]) >= beside:
            time.sleep(0.2)
        log = open(os.path.join(out, name + ".log"), "w")
        running.append(subprocess.Popen([sys.executable, __file__] + sys.argv[1:3], stdout=log, stderr=log,
                                        env=dict(os.environ, TRL_CASE=name)))
    failed = [n for n, p in zip(names, running) if p.wait() != 0]
    print(f"{len(names) - len(failed)} of {len(names)} recorded" + (f"; failed: {' '.join(failed)}" if failed else ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
