"""Records the PPO step of DeepSpeed-Chat with four DeepSpeed engines: random weights, random prompts of full length.

usage: deepspeed_engines.py CASES.json FOLDER [NAME...]     every case (or the named ones), each in processes of its own

A case is what Headroom reads as a map of DeepSpeed-Chat's third step (planner/frameworks/deepspeed_chat/read.h): actor,
critic (config.json values), batch, prompt, response, steps, dtype, zero_stage, offload, grad_ckpt, fp16_extra, and
empty_cache (none, generation, inference, training, all); world (2); padded (true: one prompt is shorter). Beyond these:

`_conf`   PYTORCH_CUDA_ALLOC_CONF of its processes
`turns`   {"kinds": […], "block": n, "turns": n}: steps emptied in these ways by turns, in one process, instead of `steps`
          of one way. FOLDER/NAME.json then has `steps`: kind, whether it is a block's first, seconds of each phase, seconds
          inside of torch.cuda.empty_cache(), calls of cudaMalloc and cudaFree, and the seconds that they took (driver_clock.py)

One process a GPU where there are as many GPUs as ranks; otherwise rank 0 alone, in a process group of PyTorch's that sends
nothing (`fake`). The order of operations is DeepSpeed-Chat's without its hybrid engine; DeepSpeed is not changed. Stand-ins:
pydantic and hjson where they are missing. Needs DeepSpeed on PYTHONPATH. Environment: BESIDE, cases at once (1); LIMIT,
seconds of one case (150); UNTIL, seconds from the start after which no case is begun.
"""

import contextlib
import faulthandler
import gc
import json
import os
import random
import subprocess
import sys
import time

import driver_clock
import stand_ins

NO_DECAY = ("bias", "layer_norm.weight", "layernorm.weight", "norm.weight", "ln_f.weight")
TRAINING = ("train_actor", "train_critic")
NOT_EMPTIED = "gather_logprobs"


def empties(kind, phase):
    """Whether the cache is emptied after `phase`."""
    if kind == "none" or phase == NOT_EMPTIED:
        return False
    return {"all": True, "generation": phase == "generate", "training": phase in TRAINING,
            "inference": phase not in TRAINING}[kind]


# --- Engines


def engine_config(case, trains, spread):
    zero = {"stage": case["zero_stage"] if trains or spread else 0, "stage3_param_persistence_threshold": 1e4,
            "memory_efficient_linear": False, "offload_param": {"device": "none"}}
    config = {"train_micro_batch_size_per_gpu": case["batch"], "steps_per_print": 1000, "zero_optimization": zero,
              case.get("dtype", "fp16"): {"enabled": True}, "gradient_clipping": 1.0, "prescale_gradients": False,
              "wall_clock_breakdown": False}
    if trains:
        place = "cpu" if case.get("offload") else "none"
        zero.update(overlap_comm=True, offload_param={"device": place}, offload_optimizer={"device": place},
                    stage3_max_live_parameters=3e7, stage3_prefetch_bucket_size=3e7)
        if "fp16" in config:
            config["fp16"].update(loss_scale_window=100, **case.get("fp16_extra", {}))
    return config


def optimizer_of(model, case):
    from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam

    groups = [{"params": [], "weight_decay": 0.01}, {"params": [], "weight_decay": 0.0}]
    for name, weight in model.named_parameters():
        groups[any(part in name.lower() for part in NO_DECAY)]["params"].append(weight)
    return (DeepSpeedCPUAdam if case.get("offload") else FusedAdam)(groups, lr=1e-6, betas=(0.9, 0.95))


def model_of(case, role):
    import torch
    import transformers

    words = role in ("actor", "ref")
    values = dict(case["actor" if words else "critic"])
    config = transformers.AutoConfig.for_model(values.pop("model_type"), **values)
    config.pad_token_id, config.eos_token_id, config.bos_token_id = 1, None, 2
    if role == "actor":
        for name in ("dropout", "attention_dropout", "hidden_dropout", "activation_dropout"):
            if hasattr(config, name):
                setattr(config, name, 0.0)
    dtype = getattr(torch, {"fp16": "float16", "bf16": "bfloat16"}[case.get("dtype", "fp16")])

    class Scorer(torch.nn.Module):
        """A body and one number a token."""

        def __init__(self):
            super().__init__()
            width = getattr(config, "word_embed_proj_dim", None) or config.hidden_size
            self.v_head = torch.nn.Linear(width, 1, bias=False, dtype=dtype)
            self.body = transformers.AutoModel.from_config(config, dtype=dtype)

        def forward_value(self, ids, mask):
            """Called past the module's own hooks, as DeepSpeed-Chat does."""
            return self.v_head(self.body(input_ids=ids, attention_mask=mask, use_cache=False)[0]).squeeze(-1)

    with empty_weights():
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype) if words else Scorer()
    model.to("cuda")
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("bias"):
                weight.zero_()
            elif weight.dim() == 1:  # a norm's
                weight.fill_(1.0)
            else:
                weight.normal_(0.0, 0.02)
    return model


@contextlib.contextmanager
def empty_weights():
    """Modules leave their weights as they come; a tied head is one tensor from the start."""
    import torch
    import transformers

    kinds = (torch.nn.Linear, torch.nn.Embedding, torch.nn.LayerNorm)
    kept = [(kind, kind.reset_parameters) for kind in kinds]
    own = transformers.PreTrainedModel.init_weights
    for kind in kinds:
        kind.reset_parameters = lambda self: None
    transformers.PreTrainedModel.init_weights = lambda self: self.tie_weights()
    try:
        yield
    finally:
        for kind, function in kept:
            kind.reset_parameters = function
        transformers.PreTrainedModel.init_weights = own


def engine_of(case, role):
    import deepspeed

    trains = role in ("actor", "critic")
    model = model_of(case, role)
    config = engine_config(case, trains, case["zero_stage"] == 3)
    if not trains:
        engine, *_ = deepspeed.initialize(model=model, config=config)
        engine.eval()
        return engine
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer_of(model, case), config=config)
    engine.train()
    if role == "critic" and case.get("grad_ckpt"):
        engine.module.body.gradient_checkpointing_enable()
    return engine


# --- The step


def token_logprobs(logits, ids):
    import torch.nn.functional as F

    return F.log_softmax(logits, dim=-1).gather(dim=-1, index=ids.unsqueeze(-1)).squeeze(-1)


class Loop:
    def __init__(self, case, recorder):
        self.case, self.recorder, self.kind, self.rows = case, recorder, case.get("empty_cache", "none"), []
        self.engines, self.experience, self.emptying, self.number = {}, None, 0.0, 0

    def start(self):
        import torch

        for role in ("actor", "ref", "critic", "reward"):
            with self.recorder.phase(f"init_{role}", -1):
                self.engines[role] = engine_of(self.case, role)
            gc.collect()
            torch.cuda.empty_cache()

    @contextlib.contextmanager
    def phase(self, name):
        import torch

        with self.recorder.phase(name, self.number) as row:
            yield
        if empties(self.kind, name):
            begin = time.perf_counter()
            torch.cuda.empty_cache()
            row["empty_seconds"] = round(time.perf_counter() - begin, 6)
            self.recorder.note_empty_cache()
        self.rows.append(row)

    def sampled(self, prompts, mask):
        import torch

        case, model = self.case, self.engines["actor"].module
        model.eval()
        with torch.no_grad():
            out = model.generate(prompts, attention_mask=mask, max_length=case["prompt"] + case["response"],
                                 pad_token_id=1, do_sample=False, synced_gpus=case["zero_stage"] == 3)
        model.train()
        lengths = (out[:, case["prompt"]:] != 1).sum(dim=-1)
        kept = [out[i:i + 1] for i in range(len(out)) if not lengths[i] <= 1]
        return out, lengths, torch.cat(kept)

    def scores(self, ids, mask):
        import torch

        values, ends = self.engines["reward"].module.forward_value(ids, mask), []
        for row, own in zip(values, ids):
            padding = (own[self.case["prompt"]:] == 1).nonzero()
            end = padding[0].item() + self.case["prompt"] if len(padding) else len(own)
            ends.append(row[end - 1])
        return torch.stack(ends)

    def make_experience(self):
        import torch

        case = self.case
        prompts = torch.randint(5, case["actor"]["vocab_size"] - 5, (case["batch"], case["prompt"]), device="cuda")
        prompt_mask = torch.ones_like(prompts)
        if case.get("padded", True):
            prompts[0, :8], prompt_mask[0, :8] = 1, 0
        with self.phase("generate"):
            generated, lengths, ids = self.sampled(prompts, prompt_mask)
        mask = ids.not_equal(1).long()
        with torch.no_grad():
            with self.phase("actor_logprob"):
                own = self.engines["actor"](ids, attention_mask=mask)
            with self.phase("ref_logprob"):
                reference = self.engines["ref"](ids, attention_mask=mask)
            with self.phase("reward"):
                rewards = self.scores(ids, mask)
            with self.phase("critic_values"):
                values = self.engines["critic"].module.forward_value(ids, mask)
        with self.phase("gather_logprobs"), torch.no_grad():
            old = token_logprobs(own.logits[:, :-1, :], ids[:, 1:])
            other = token_logprobs(reference.logits[:, :-1, :], ids[:, 1:])
        del own, reference, generated, lengths
        self.experience = dict(prompts=prompts, ids=ids, mask=mask, old=old, other=other, rewards=rewards, values=values)

    def advantages(self, rewards, values, start):
        import torch

        last, found = 0, []
        for t in reversed(range(start, rewards.size(-1))):
            after = values[:, t + 1] if t + 1 < rewards.size(-1) else 0.0
            delta = rewards[:, t] + after - values[:, t]
            last = delta + 0.95 * last
            found.append(last)
        gains = torch.stack(found[::-1], dim=1)
        return gains.detach(), gains + values[:, start:]

    def token_rewards(self, e, start):
        import torch

        rewards = -0.1 * (e["old"] - e["other"])
        ends = start + e["mask"][:, 1:][:, start:].sum(1) + 1
        clipped = torch.clamp(e["rewards"], -5, 5)
        for i in range(len(rewards)):
            rewards[i, start:ends[i]][-1] += clipped[i]
        return rewards

    def train(self):
        import torch

        e, start, case = self.experience, self.case["prompt"] - 1, self.case
        actor, critic = self.engines["actor"], self.engines["critic"]
        shifted = e["mask"][:, 1:][:, start:]
        if case.get("grad_ckpt"):
            actor.module.gradient_checkpointing_enable()
        with self.phase("train_actor"):
            values = e["values"][:, :-1]
            with torch.no_grad():
                rewards = self.token_rewards(e, start)
                gains, returns = self.advantages(rewards, values, start)
            logits = actor(input_ids=e["ids"], attention_mask=e["mask"], use_cache=False).logits
            chances = token_logprobs(logits[:, :-1, :], e["ids"][:, 1:])
            ratio = torch.exp((chances[:, start:] - e["old"][:, start:]) * shifted)
            worse = torch.max(-gains * ratio, -gains * torch.clamp(ratio, 0.8, 1.2))
            loss = torch.sum(worse * shifted) / shifted.sum()
            actor.backward(loss)
            actor.step()
        with self.phase("train_critic"):
            found = critic.module.forward_value(e["ids"], e["mask"])
            guesses, before = found[:, :-1][:, start:], values[:, start:]
            near = torch.clamp(guesses, before - 0.2, before + 0.2)
            worse = torch.max((guesses - returns) ** 2, (near - returns) ** 2)
            critic_loss = 0.5 * torch.sum(worse * shifted) / shifted.sum()
            critic.backward(critic_loss)
            critic.step()
        if case.get("grad_ckpt"):
            actor.module.gradient_checkpointing_disable()
        return loss, critic_loss

    def step(self):
        self.make_experience()
        with self.phase("experience_end"):
            pass
        self.losses = self.train()
        self.number += 1


# --- By turns


def driver_calls():
    import torch

    stats = torch.cuda.memory_stats()
    return [stats["num_device_alloc"], stats["num_device_free"]]


def by_turns(loop, turns):
    import torch

    out = []
    loop.kind = "none"
    for _ in range(2):
        loop.step()
    for turn in range(turns["turns"]):
        for kind in turns["kinds"]:
            loop.kind = kind
            for at in range(turns["block"]):
                begun, before, clock = len(loop.rows), driver_calls(), driver_clock.read()
                torch.cuda.synchronize()
                start = time.perf_counter()
                loop.step()
                torch.cuda.synchronize()
                took = time.perf_counter() - start
                rows = loop.rows[begun:]
                out.append(dict(kind=kind, turn=turn, first=at == 0, seconds=took, driver=clock and driver_clock.since(clock),
                                phases={row["phase"]: row["seconds"] for row in rows},
                                emptying=sum(row.get("empty_seconds", 0) for row in rows),
                                calls=[b - a for a, b in zip(before, driver_calls())]))
    return out


# --- Processes


def ranks_of(case):
    return case.get("world", 2)


def join(case):
    import torch

    rank, world = int(os.environ["RANK"]), ranks_of(case)
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if int(os.environ["PROCESSES"]) == world:
        torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
        return
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())


def record(case, out):
    stand_ins.install(["hjson"], fill={"hjson": lambda module: vars(module).update(load=json.load, loads=json.loads,
                                                                                  dumps=json.dumps)})
    stand_ins.install_pydantic()
    import torch

    import headroom_recorder

    join(case)
    import deepspeed

    deepspeed.init_distributed("nccl")
    torch.manual_seed(0)
    recorder = headroom_recorder.start(out, case)
    loop = Loop(case, recorder)
    try:
        loop.start()
        if "turns" in case:
            recorder.record["steps"] = by_turns(loop, case["turns"])
        else:
            for _ in range(case.get("steps", 3)):
                loop.step()
            recorder.record["losses"] = [loss.item() for loss in loop.losses]
            recorder.record["skipped"] = [getattr(loop.engines[r], "skipped_steps", None) for r in ("actor", "critic")]
    except torch.cuda.OutOfMemoryError as error:
        recorder.record["oom"] = str(error)[:600]
    recorder.record.update(world=ranks_of(case), sends=torch.distributed.get_backend(), deepspeed=deepspeed.__version__)
    recorder.write()


def launch(case, out, cases_file):
    import torch

    count = ranks_of(case) if torch.cuda.device_count() >= ranks_of(case) else 1
    processes = []
    port = str(20000 + random.randrange(20000))
    for rank in range(count):
        base = dict(os.environ, CASE=case["name"], PROCESSES=str(count), WORLD_SIZE=str(ranks_of(case)), RANK=str(rank),
                    LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        if case.get("_conf"):
            base["PYTORCH_CUDA_ALLOC_CONF"] = case["_conf"]
        if "turns" in case:
            base["LD_PRELOAD"] = driver_clock.build(out)
        log = open(os.path.join(out, f"{case['name']}.{rank}.log"), "w")
        processes.append(subprocess.Popen([sys.executable, __file__, cases_file, out], stdout=log, stderr=log, env=base))
    return processes


def main():
    cases = {case["name"]: case for case in json.load(open(sys.argv[1]))}
    out, names = sys.argv[2], sys.argv[3:] or list(cases)
    if os.environ.get("CASE"):
        faulthandler.dump_traceback_later(int(os.environ.get("LIMIT", "150")), exit=True)
        record(cases[os.environ["CASE"]], os.path.join(out, os.environ["CASE"] + ".json"))
        sys.stdout.flush()
        os._exit(0)
    os.makedirs(out, exist_ok=True)
    beside, until, begun = int(os.environ.get("BESIDE", "1")), float(os.environ.get("UNTIL", "1e9")), time.monotonic()
    running, left = {}, []
    for name in names:
        while sum(any(p.poll() is None for p in group) for group in running.values()) >= beside:
            time.sleep(0.2)
        if time.monotonic() - begun > until:
            left.append(name)
            continue
        running[name] = launch(cases[name], out, sys.argv[1])
    failed = [name for name, group in running.items() if any([p.wait() != 0 for p in group])]
    print(f"{len(running) - len(failed)} recorded, failed: {failed}, not begun: {left}, {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
