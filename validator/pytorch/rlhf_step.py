"""Runs the steps of a plain RLHF loop with Hugging Face models in real PyTorch and records every phase: the third column
beside Headroom's prediction and its own GPU probe of the same case.

usage: python3 rlhf_step.py CASE.json OUT.json
       python3 -m torch.distributed.run --nproc-per-node N rlhf_step.py CASE.json OUT.json     (precision fsdp)

CASE.json is what `headroom validate --framework torch` reads, bare or under `case`; see planner/frameworks/torch/read.h
for the keys. Weights are random, sequences full length. OUT.json is read by `headroom validate --recording` and
`headroom compare`. With `trace: true` every allocation is recorded too, in OUT.trace.json.gz (rank 0).
"""

import contextlib
import gc
import json
import os
import sys

import torch
import torch.nn.functional as F
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils import logging

import allocation_stream
import headroom_recorder

WEIGHT_TYPES = {"bf16": torch.bfloat16, "master": torch.bfloat16, "fp16": torch.float16}
PHASE_MARK = 7777  # bytes of the allocation that begins each phase of a traced run
TRAINING = ("train_actor", "train_critic")


class Scorer(torch.nn.Module):
    """A decoder without its language head and one number a token on top: critics and reward models."""

    def __init__(self, config, dtype, attention):
        super().__init__()
        self.body = AutoModel.from_config(config, dtype=dtype, attn_implementation=attention)
        width = getattr(config, "word_embed_proj_dim", None) or config.hidden_size
        self.head = torch.nn.Linear(width, 1, bias=False, dtype=dtype)
        self.gradient_checkpointing_enable = self.body.gradient_checkpointing_enable

    def forward(self, tokens):
        return self.head(self.body(input_ids=tokens, use_cache=False)[0]).squeeze(-1)


class Adam:
    """AdamW over what is trained; with `master`, over fp32 copies whose values go back after each step."""

    IMPLEMENTATIONS = {"foreach": {"foreach": True}, "fused": {"fused": True}, "loop": {"foreach": False}}

    def __init__(self, model, case):
        self.trained = [p for p in model.parameters() if p.requires_grad]
        self.copies = None
        if case.get("precision") == "master":
            self.copies = [p.detach().float().clone() for p in self.trained]
        self.clips = case.get("clip", True)
        # A scale that small losses do not overflow: every step is taken.
        self.scaler = torch.amp.GradScaler("cuda", init_scale=1024.0) if case.get("grad_scaler") else None
        self.inner = torch.optim.AdamW(self.copies or self.trained, lr=1e-6,
                                       **self.IMPLEMENTATIONS[case.get("adam", "foreach")])

    def step(self):
        for copy, weight in zip(self.copies or [], self.trained):
            copy.grad = weight.grad.float()
            weight.grad = None
        if self.clips:
            if self.scaler:
                self.scaler.unscale_(self.inner)
            torch.nn.utils.clip_grad_norm_(self.copies or self.trained, 1.0)
        if self.scaler:
            self.scaler.step(self.inner)
            self.scaler.update()
        else:
            self.inner.step()
        self.inner.zero_grad(set_to_none=True)
        with torch.no_grad():
            for copy, weight in zip(self.copies or [], self.trained):
                weight.copy_(copy)

    def to(self, place):
        for state in self.inner.state.values():
            for name, value in state.items():
                if torch.is_tensor(value) and value.dim():
                    state[name] = value.to(place)


def shard(model, config, trains, case):
    """FSDP2: one group a decoder layer (and an untied embedding), one for the rest."""
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

    policy = {
        "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
        "reshard_after_forward": case.get("reshard_after_forward", True),
    }
    if case.get("cpu_offload") or (not trains and case.get("ref_offload")):
        policy["offload_policy"] = CPUOffloadPolicy(pin_memory=True)
    layers = getattr(model, "_no_split_modules", None) or model.body._no_split_modules
    for module in model.modules():
        untied = isinstance(module, torch.nn.Embedding) and not config.tie_word_embeddings
        if type(module).__name__ in layers or untied:
            fully_shard(module, **policy)
    fully_shard(model, **policy)


def add_adapters(model, role, case):
    from peft import LoraConfig, get_peft_model

    kind = "CAUSAL_LM" if role == "actor" else None
    model = get_peft_model(model, LoraConfig(r=case["lora"], lora_alpha=16, task_type=kind,
                                             target_modules=case.get("lora_targets", "all-linear")))
    if case.get("grad_ckpt"):
        model.enable_input_require_grads()
    return model


class Loop:
    def __init__(self, case, recorder, device):
        self.case, self.recorder, self.device = case, recorder, device
        self.precision = case.get("precision", "bf16")
        self.ppo = case.get("algo", "ppo") == "ppo"
        self.batch, self.micro = case["batch"], case.get("micro_batch", case["batch"])
        self.rows = case.get("logprob_micro_batch", self.micro)
        self.swaps = case.get("ems", False)
        self.models, self.optimizers, self.mask = {}, {}, None
        self.roles = ["actor"] + ["ref"] * case.get("use_ref", True) + ["critic"] * self.ppo
        self.roles += ["reward"] * case.get("use_reward", self.ppo)

    # --- Models

    def build(self, role):
        case, trains = self.case, role in ("actor", "critic")
        words = role in ("actor", "ref")
        shape = dict(case["actor"] if words else case.get("critic", case["actor"]))
        config = AutoConfig.for_model(shape.pop("model_type"), **shape)
        frozen = torch.bfloat16 if self.precision != "fp32" else torch.float32
        if case.get("frozen_dtype"):
            frozen = getattr(torch, case["frozen_dtype"])
        dtype = WEIGHT_TYPES.get(self.precision, torch.float32) if trains else frozen
        attention = case.get("attn", "sdpa")
        with torch.device(self.device):
            if words:
                model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=attention)
            else:
                model = Scorer(config, dtype, attention)
        if trains:
            model = self.prepare(model, role)
        else:
            model.eval().requires_grad_(False)
        if self.precision == "fsdp" and (trains or case.get("shard_frozen", True)):
            shard(model, config, trains, case)
        return model

    def prepare(self, model, role):
        model.train()
        if self.case.get("dropout_off", True):
            for module in model.modules():
                if isinstance(module, torch.nn.Dropout):
                    module.p = 0.0
        if self.case.get("grad_ckpt"):
            reentrant = {"use_reentrant": self.case.get("reentrant", False)}
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=reentrant)
            layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
            for number, layer in enumerate(layers):
                layer.gradient_checkpointing = number % self.case.get("grad_ckpt_every", 1) == 0
        return add_adapters(model, role, self.case) if self.case.get("lora") else model

    def load(self, role):
        if self.swaps:
            self.models[role].to(self.device)

    def unload(self, role):
        if self.swaps:
            self.models[role].to("cpu")
            torch.cuda.empty_cache()

    # --- Phases

    @contextlib.contextmanager
    def phase(self, name, step):
        with self.recorder.phase(name, step):
            if self.case.get("trace"):
                torch.empty(PHASE_MARK, dtype=torch.uint8, device=self.device)
            yield
        when = self.case.get("empty_cache", "none")
        if when == "all" or when == ("training" if name in TRAINING else "inference"):
            torch.cuda.empty_cache()
            self.recorder.note_empty_cache()

    def autocast(self):
        narrow = torch.float16 if self.case.get("amp_dtype") == "fp16" else torch.bfloat16
        return torch.autocast("cuda", narrow, enabled=self.precision == "amp")

    @contextlib.contextmanager
    def inference(self, name, step):
        with self.phase(name, step), torch.no_grad(), self.autocast():
            yield

    def offloads(self):
        if self.case.get("activation_offload"):
            return torch.autograd.graph.save_on_cpu(pin_memory=True)
        return contextlib.nullcontext()

    def logits(self, model, tokens):
        mask = None if self.mask is None else self.mask[:len(tokens)]
        return model(input_ids=tokens, attention_mask=mask, use_cache=False).logits

    def logprobs(self, logits, tokens):
        """Of each token after the first, by the case's way of picking them."""
        scores, targets = logits[:, :-1], tokens[:, 1:]
        if self.case.get("logits_fp32"):
            scores = scores.float()
        way = self.case.get("token_logprob", "log_softmax")
        if way == "selective":
            return self.selective_log_softmax(scores, targets)
        if way == "log_softmax":
            return F.log_softmax(scores, -1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
        if way == "cross_entropy":
            flat = F.cross_entropy(scores.reshape(-1, scores.size(-1)), targets.reshape(-1), reduction="none")
            return -flat.view(targets.shape)
        return scores.gather(-1, targets.unsqueeze(-1)).squeeze(-1) - torch.logsumexp(scores, -1)

    @staticmethod
    def selective_log_softmax(scores, targets):
        """Row by row, so that only one row's table exists beside the logits."""
        index = targets.unsqueeze(-1)
        if scores.dtype == torch.float32:
            chosen = torch.gather(scores, -1, index)
            return (chosen - torch.stack([torch.logsumexp(row, -1) for row in scores]).unsqueeze(-1)).squeeze(-1)
        rows = []
        for row, column in zip(scores, index):
            table = F.log_softmax(row, -1)
            picked = table.gather(-1, column)
            rows.append(picked)
        return torch.stack(rows).squeeze(-1)

    def entropies(self, logits):
        """Of the positions that predict a token: at once, or packed and by parts in fp32."""
        scores = logits[:, :-1]
        if self.case["entropy"] == "eager":
            if self.case.get("logits_fp32"):
                scores = scores.float()
            weights = F.softmax(scores, dim=-1)
            return torch.logsumexp(scores, dim=-1) - torch.sum(weights * scores, dim=-1)
        scores, part = scores.reshape(-1, scores.size(-1)), self.case.get("entropy_chunk", 2048)
        joined = torch.zeros(scores.shape[0], device=scores.device)
        for first in range(0, scores.shape[0], part):
            wide = scores[first:first + part].float()
            weights = F.softmax(wide, dim=-1)
            values = torch.logsumexp(wide, dim=-1) - torch.sum(weights * wide, dim=-1)
            joined[first:first + part] = values
        return joined

    def all_logprobs(self, role, tokens):
        self.load(role)
        parts = []
        for first in range(0, self.batch, self.rows):
            rows = tokens[first:first + self.rows]
            parts.append(self.logprobs(self.logits(self.models[role], rows), rows))
        joined = torch.cat(parts)
        del parts
        self.unload(role)
        return joined

    def generate(self, prompts):
        case, model = self.case, self.models["actor"]
        self.load("actor")
        model.eval()
        with torch.no_grad(), self.autocast():
            words = model.config.vocab_size
            if case.get("no_generate"):
                answers = torch.randint(5, words - 5, (self.batch, case["response"]), device=self.device)
                tokens = torch.cat([prompts, answers], 1)
            else:
                tokens = model.generate(prompts, attention_mask=torch.ones_like(prompts), do_sample=True, top_k=0,
                                        min_new_tokens=case["response"], max_new_tokens=case["response"],
                                        pad_token_id=1, eos_token_id=words - 1, use_cache=True, synced_gpus=False)
        model.train()
        self.unload("actor")
        return tokens

    def train(self, role, step, tokens, loss_of):
        self.load(role)
        if self.swaps and step > 0:
            self.optimizers[role].to(self.device)
        parts = self.batch // self.micro
        for _ in range(self.case.get("epochs", 1)):
            for part in range(parts):
                rows = slice(part * self.micro, (part + 1) * self.micro)
                with self.offloads():
                    loss = loss_of(tokens[rows], rows) / parts
                scaler = self.optimizers[role].scaler
                (scaler.scale(loss) if scaler else loss).backward()
                del loss
            self.optimizers[role].step()
        if self.swaps:
            self.optimizers[role].to("cpu")
            self.unload(role)

    # --- The run

    def start(self):
        with self.phase("init", -1):
            for role in self.roles:
                self.models[role] = self.build(role)
            for role in ("actor", "critic"):
                if role in self.models:
                    self.optimizers[role] = Adam(self.models[role], self.case)
        if self.case.get("empty_after_init", True):
            gc.collect()
            torch.cuda.empty_cache()
        for role in self.roles:
            self.unload(role)

    def step(self, number):
        words = self.models["actor"].config.vocab_size
        prompts = torch.randint(5, words - 5, (self.batch, self.case["prompt"]), device=self.device)
        with self.phase("generate", number):
            tokens = self.generate(prompts)
        del prompts
        self.mask = torch.ones_like(tokens) if self.case.get("pass_mask") else None
        with self.inference("actor_logprob", number):
            old = self.all_logprobs("actor", tokens)
        reference, values = old, None
        if "ref" in self.models:
            with self.inference("ref_logprob", number):
                reference = self.all_logprobs("ref", tokens)
        rewards = torch.randn(self.batch, device=self.device)
        if "reward" in self.models:
            with self.inference("reward", number):
                self.load("reward")
                rewards = torch.cat([self.models["reward"](rows)[:, -1] for rows in tokens.split(self.rows)]).float()
                self.unload("reward")
        if "critic" in self.models:
            with self.inference("critic_values", number):
                self.load("critic")
                values = torch.cat([self.models["critic"](rows) for rows in tokens.split(self.rows)]).float()
                self.unload("critic")
        advantages = (rewards - rewards.mean())[:, None].expand_as(old).float().contiguous()

        bonus = self.case.get("entropy", "none")

        def actor_loss(rows, at):
            with self.autocast():
                logits = self.logits(self.models["actor"], rows)
            new = self.logprobs(logits, rows).float()
            entropies = self.entropies(logits) if bonus != "none" else None
            del logits
            ratio, gain = torch.exp(new - old[at].float()), advantages[at]
            clipped = torch.max(-gain * ratio, -gain * ratio.clamp(0.8, 1.2)).mean()
            loss = clipped + 0.01 * (new - reference[at].float()).mean()
            return loss if entropies is None else loss - 0.01 * entropies.mean()

        def critic_loss(rows, at):
            with self.autocast():
                guess = self.models["critic"](rows)
            return F.mse_loss(guess.float(), values[at] + 0.1)

        with self.phase("train_actor", number):
            self.train("actor", number, tokens, actor_loss)
        if "critic" in self.models:
            with self.phase("train_critic", number):
                self.train("critic", number, tokens, critic_loss)


def main():
    logging.set_verbosity_error()
    with open(sys.argv[1]) as file:
        case = json.load(file)
    case = case.get("case", case)
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1:
        torch.distributed.init_process_group("cpu:gloo,cuda:nccl", device_id=device)
        torch.distributed.barrier()
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.empty(1, device=device)
    torch.cuda.empty_cache()
    traced = case.get("trace") and int(os.environ.get("RANK", "0")) == 0
    if traced:
        allocation_stream.begin()
    recorder = headroom_recorder.start(sys.argv[2], case)
    loop = Loop(case, recorder, device)
    try:
        loop.start()
        for number in range(case.get("steps", 2)):
            loop.step(number)
    except torch.cuda.OutOfMemoryError as error:
        recorder.record["oom"] = str(error)[:600]
        recorder.write()
    if traced:
        allocation_stream.write(os.path.splitext(sys.argv[2])[0] + ".trace.json.gz", case.get("name", ""))
    phases = recorder.record["phases"]
    print(f"{case.get('name', sys.argv[1])}: {len(phases)} phases, reserved peak "
          f"{max(row['peak_reserved'] for row in phases) / 2**30:.2f} GiB, oom: {'oom' in recorder.record}")
    if ranks > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
