"""Records OpenRLHF's own actors and trainers on DeepSpeed: random weights, random tokens of full length.

usage: openrlhf_actors.py CASES.json FOLDER [NAME...]   every case (or the named ones), each a process with one GPU

A case: name; program (train_ppo_ray, train_sft, train_dpo, train_rm); words, its command line, whose model paths are
`MODEL`; model, values of a config.json; process (of train_ppo_ray: actor, ref, critic or reward: the one recorded, which
has a process of its own in OpenRLHF too); steps (default 3). OpenRLHF and DeepSpeed are not changed. Stand-ins: Ray, vLLM
(whoever receives weights answers at once), loggers, datasets, the tokenizer, pydantic where it is missing, flash-attn's
kernels (PyTorch's own copy of FlashAttention 2). Rows: init; then actor_logprob, ref_logprob, critic_values or reward;
train_actor or train_critic (reload, fit, offload); weight_sync. SFT, DPO and RM: a step is train_actor, from its first
micro-batch to the first of the next.

Needs on PYTHONPATH: OpenRLHF 0.11, DeepSpeed 0.19 and flash-attn's Python files. Runs that hang end after LIMIT seconds
(environment, 200).
"""

import faulthandler
import importlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import stand_ins

ABSENT = ["ray", "vllm", "wandb", "datasets", "torchdata", "hjson", "ring_flash_attn", "modelscope", "fastapi", "uvicorn",
          "pylatexenc", "aiohttp"]


def fill_torchdata(module):
    import torch

    module.StatefulDataLoader = torch.utils.data.DataLoader


def fill_hjson(module):
    module.load, module.loads, module.dumps = json.load, json.loads, json.dumps


def prepare_imports():
    stand_ins.install(ABSENT, "0.27.1", {"torchdata.stateful_dataloader": fill_torchdata, "hjson": fill_hjson})
    stand_ins.install_flash_attention()
    stand_ins.install_pydantic()


def keep_peaks():
    """DeepSpeed resets PyTorch's peaks while it builds an engine; a recording needs them whole."""
    from deepspeed.accelerator import get_accelerator

    own = get_accelerator()
    own.reset_peak_memory_stats = own.reset_max_memory_allocated = own.reset_max_memory_cached = lambda *_, **__: None


def arguments_of(case, folder):
    """As the program's own parser and its checks leave them."""
    spec = importlib.util.find_spec(f"openrlhf.cli.{case['program']}")
    source = open(spec.origin).read()
    before, call, rest = source.rpartition("\n    train(args)")
    assert call and not rest.strip(), "the program no longer ends with train(args)"
    sys.argv = [spec.origin] + [folder if word == "MODEL" else word for word in case["words"]]
    space = {"__name__": "__main__", "__file__": spec.origin}
    exec(compile(before + "\n    train = train\n", spec.origin, "exec"), space)
    return space["args"], space


def model_folder(case, folder):
    import torch
    import transformers

    values = dict(case["model"])
    config = transformers.AutoConfig.for_model(values.pop("model_type"), **values)
    config.pad_token_id, config.eos_token_id, config.bos_token_id = 1, 2, None
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    del model
    torch.cuda.empty_cache()


class Tokenizer:
    pad_token_id, eos_token_id, pad_token, eos_token = 1, 2, "<pad>", "<eos>"

    def decode(self, *_, **__):
        return ""


class Remote:
    """The engine's end: lets go of what it was lent, as who opened a buffer of another process does; else the sender's
    allocator would keep it for good."""

    def remote(self, *_, ipc_handles=None, **__):
        import torch

        for handle in (ipc_handles or {}).values():
            *_, counter, offset, _, _ = handle[1]
            torch.UntypedStorage._release_ipc_counter(counter, offset, device="cuda:0")


class Engine:
    def __getattr__(self, name):
        return Remote()


def experience(case, args, count):
    """Sequences of full length, as the rollout hands them on."""
    import torch
    from openrlhf.trainer.ppo_utils.experience import Experience

    length, response = args.data.max_len, args.rollout.max_new_tokens
    mask = torch.zeros(count, length - 1, dtype=torch.long)
    mask[:, -response:] = 1
    like = lambda: torch.randn(count, length - 1) * 0.01
    out = Experience(sequences=torch.randint(5, case["model"]["vocab_size"], (count, length)),
                     attention_mask=torch.ones(count, length, dtype=torch.long), action_mask=mask,
                     action_log_probs=like(), advantages=like(), returns=like(), rewards=torch.rand(count),
                     response_length=torch.full((count,), float(response)),
                     total_length=torch.full((count,), float(length)), truncated=torch.zeros(count),
                     info={"reward": torch.rand(count), "return": torch.rand(count), "kl": torch.rand(count)})
    if args.algo.kl.use_loss and args.algo.kl.init_coef > 0:
        out.base_action_log_probs = like()
    if args.critic.model_name_or_path:
        out.values = like()
    return out


def make_actor(case, args, folder, headroom):
    from openrlhf.trainer.ray import launcher, ppo_actor, ppo_critic
    from openrlhf.utils import get_strategy

    for module in (ppo_actor, ppo_critic):
        module.get_tokenizer = lambda *_, **__: Tokenizer()
    kind = dict(actor=ppo_actor.PolicyModelActor, critic=ppo_critic.CriticModelActor, ref=launcher.ReferenceModelActor,
                reward=launcher.RewardModelActor)[case["process"]]
    strategy = get_strategy(args)
    actor = kind(1, 0, "127.0.0.1", int(os.environ["MASTER_PORT"]))
    more = dict(actor=dict(max_steps=1000, vllm_engines=[Engine()]), critic=dict(max_steps=1000))
    with headroom.phase("init"):
        actor.init_model_from_pretrained(strategy, folder, **more.get(case["process"], {}))
    return actor


SCORES = dict(actor="actor_logprob", ref="ref_logprob", critic="critic_values", reward="reward")


def score(case, args, actor):
    """Every sample of this rank, a micro-batch at a time; what comes back stays on the host."""
    count = args.rollout.batch_size * args.rollout.n_samples_per_prompt
    if args.train.dynamic_batch_enable:
        fits = max(1, args.rollout.max_tokens_per_gpu // args.data.max_len)
        micro = -(-count // -(-count // fits))
    else:
        micro = args.rollout.micro_batch_size
    batches = [experience(case, args, min(micro, count - begin)) for begin in range(0, count, micro)]
    data = dict(sequences=[b.sequences for b in batches], attention_mask=[b.attention_mask for b in batches])
    if case["process"] == "reward":
        data["pad_sequence"] = [True] * len(batches)
    else:
        data["action_mask"] = [b.action_mask for b in batches]
    actor.execute_batch("forward", data, 0, len(batches))
    if args.train.colocate_all or args.train.colocate_actor_ref:
        actor.empty_cache()


def record_rl(case, args, folder, headroom):
    actor = make_actor(case, args, folder, headroom)
    process = case["process"]
    for _ in range(case.get("steps", 3)):
        headroom.step()
        with headroom.phase(SCORES[process]):
            score(case, args, actor)
        if process in ("ref", "reward"):
            continue
        actor.append(experience(case, args, args.rollout.batch_size * args.rollout.n_samples_per_prompt))
        with headroom.phase("train_" + process):
            if args.ds.enable_sleep:
                actor.reload_states()
            actor.fit(**(dict(kl_ctl=args.algo.kl.init_coef) if process == "actor" else {}))
            if args.ds.enable_sleep:
                actor.offload_states()
        if process == "actor":
            with headroom.phase("weight_sync"):
                actor.broadcast_to_vllm()


class Rows(list):
    """A dataset: what the program asks of it."""

    def select(self, _):
        return self


def dataset_of(case, args, steps):
    """Stands for SFTDataset or RewardDataset: rows of full length, half of each the prompt."""
    import torch

    length, count = args.data.max_len, args.train.batch_size * steps
    row = lambda: torch.randint(5, case["model"]["vocab_size"], (length,))

    class Dataset(Rows):
        def __init__(self, *_, **__):
            super().__init__([row() for _ in range(count)])

        def collate_fn(self, rows):
            ids, ones = torch.stack(rows), torch.ones(len(rows), length, dtype=torch.long)
            if case["program"] == "train_sft":
                loss = ones.float()
                loss[:, : length // 2] = 0
                return ids, ones, loss
            extra = [length // 2] * len(rows) if case["program"] == "train_dpo" else [0.0] * len(rows)
            return ids, ones, ids.roll(1, 1), ones.clone(), extra

    return Dataset


class Stepped:
    """A loader each of whose steps is a phase, from its first micro-batch to the first of the next."""

    sampler = None

    def __init__(self, loader, a_step, headroom):
        self.loader, self.a_step, self.headroom, self.row = loader, a_step, headroom, None

    def __len__(self):
        return len(self.loader)

    def end(self):
        if self.row:
            self.row.__exit__(None, None, None)
        self.row = None

    def __iter__(self):
        for i, batch in enumerate(self.loader):
            if i % self.a_step == 0:
                self.end()
                self.headroom.step()
                self.row = self.headroom.phase("train_actor")
                self.row.__enter__()
            yield batch
        # Who asks for more while a step's batches are gathered still has the step before it.

    def __del__(self):
        self.end()


def record_supervised(case, args, space, headroom):
    from openrlhf.utils.deepspeed import DeepspeedStrategy

    steps = case.get("steps", 3)
    dataset = dataset_of(case, args, steps)
    space.update(blending_datasets=lambda *_, **__: Rows(range(args.train.batch_size * steps)), SFTDataset=dataset,
                 RewardDataset=dataset, get_tokenizer=lambda *_, **__: Tokenizer())
    DeepspeedStrategy.save_model = lambda *_, **__: None
    own = DeepspeedStrategy.setup_dataloader
    init = headroom.phase("init")
    loaders = []

    def setup(strategy, *arguments, **named):
        loader = own(strategy, *arguments, **named)
        if loaders:
            return loader  # of an evaluation
        loaders.append(Stepped(loader, strategy.accumulated_gradient, headroom))
        return loaders[-1]

    DeepspeedStrategy.setup_dataloader = setup
    trainer = next(value for name, value in space.items() if name.endswith("Trainer") and isinstance(value, type))
    fit = trainer.fit

    def fitted(*arguments, **named):
        init.__exit__(None, None, None)
        out = fit(*arguments, **named)
        loaders[0].end()
        return out

    trainer.fit = fitted
    init.__enter__()
    space["train"](args)


def record(case, out, folder):
    import torch

    import headroom_recorder as headroom

    torch.empty(1, device="cuda")
    torch.cuda.empty_cache()
    args, space = arguments_of(case, folder)
    args.local_rank = 0
    keep_peaks()
    headroom.start(out, case)
    if case.get("snapshot"):
        torch.cuda.memory._record_memory_history(stacks="python", max_entries=500_000)
    if case["program"] == "train_ppo_ray":
        record_rl(case, args, folder, headroom)
    else:
        record_supervised(case, args, space, headroom)
    if case.get("snapshot"):
        torch.cuda.memory._dump_snapshot(out.replace(".json", ".pickle"))
    import deepspeed

    about = json.load(open(out))
    about["versions"] = {"deepspeed": deepspeed.__version__}
    json.dump(about, open(out, "w"))


def launch(case, out, cases_file):
    folder = tempfile.mkdtemp()
    port = str(20000 + random.randrange(20000))
    base = dict(os.environ, CASE=case["name"], MODEL_FOLDER=folder, WORLD_SIZE="1", RANK="0", LOCAL_RANK="0",
                MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    log = open(os.path.join(out, f"{case['name']}.log"), "w")
    return subprocess.Popen([sys.executable, __file__, cases_file, out], stdout=log, stderr=log, env=base)


def main():
    cases = {case["name"]: case for case in json.load(open(sys.argv[1]))}
    out, names = sys.argv[2], sys.argv[3:] or list(cases)
    if os.environ.get("CASE"):
        faulthandler.dump_traceback_later(int(os.environ.get("LIMIT", "200")), exit=True)
        case = cases[os.environ["CASE"]]
        prepare_imports()
        folder = os.environ["MODEL_FOLDER"]
        model_folder(case, folder)
        try:
            record(case, os.path.join(out, case["name"] + ".json"), folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        sys.stdout.flush()
        os._exit(0)
    os.makedirs(out, exist_ok=True)
    beside, running = int(os.environ.get("BESIDE", "1")), []
    for name in names:
        while sum(process.poll() is None for process in running) >= beside:
            time.sleep(0.2)
        running.append(launch(cases[name], out, sys.argv[1]))
    failed = [name for name, process in zip(names, running) if process.wait() != 0]
    print(f"{len(names) - len(failed)} of {len(names)} recorded" + (f"; failed: {' '.join(failed)}" if failed else ""))


if __name__ == "__main__":
    main()
