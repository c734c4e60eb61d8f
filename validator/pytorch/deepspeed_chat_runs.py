"""Records DeepSpeed-Chat's own programs, steps 1 to 3: random weights, random tokens of full length.

usage: deepspeed_chat_runs.py CASES.json FOLDER [NAME...]   every case (or the named ones), each a process with one GPU

A case: name; program (step1, step2, step2_dpo, step3); words, its command line, whose model paths are `MODEL` and
`CRITIC`; model and critic, values of a config.json (critic: of step 3); steps (default 3). Programs and DeepSpeed are not
changed. Stand-ins: datasets, the tokenizer, pydantic where it is missing. Rows of step 3: init_actor, init_ref, init_ema,
init_critic, init_reward; generate, actor_logprob, ref_logprob, reward, critic_values, gather_logprobs; train_actor,
train_critic. Of the others: init, first_evaluation; train_actor (from a step's first micro-batch to the first of the
next), evaluation.

Needs on PYTHONPATH: DeepSpeed 0.19 and DeepSpeed-Chat's folder. Runs that hang end after LIMIT seconds (environment, 200).
"""

import contextlib
import faulthandler
import importlib
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import stand_ins

FOLDERS = dict(step1="step1_supervised_finetuning", step2="step2_reward_model_finetuning", step2_dpo="step2_dpo_finetuning",
               step3="step3_rlhf_finetuning")


def fill_hjson(module):
    module.load, module.loads, module.dumps = json.load, json.loads, json.dumps


def prepare_imports():
    stand_ins.install(["datasets", "hjson"], fill={"hjson": fill_hjson})
    stand_ins.install_pydantic()
    import transformers

    if not hasattr(transformers.modeling_utils, "no_init_weights"):
        transformers.modeling_utils.no_init_weights = contextlib.nullcontext


def config_of(values):
    import transformers

    values = dict(values)
    config = transformers.AutoConfig.for_model(values.pop("model_type"), **values)
    config.pad_token_id = config.eos_token_id = config.vocab_size - 1
    config.bos_token_id = 2
    return config


def model_folders(case, folder):
    """The actor as Transformers saves it; the critic with the weights that step 2 would have saved."""
    import torch
    import transformers

    paths = {"MODEL": os.path.join(folder, "actor"), "CRITIC": os.path.join(folder, "critic")}
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config_of(case["model"]), dtype=torch.float32)
    model.save_pretrained(paths["MODEL"])
    del model
    if "critic" in case:
        config = config_of(case["critic"])
        with torch.device("cuda"):
            body = transformers.AutoModel.from_config(config, dtype=torch.float32)
        weights = {"rwtransformer." + name: tensor.cpu() for name, tensor in body.state_dict().items()}
        weights["v_head.weight"] = torch.zeros(1, getattr(config, "word_embed_proj_dim", config.hidden_size))
        config.save_pretrained(paths["CRITIC"])
        torch.save(weights, os.path.join(paths["CRITIC"], "pytorch_model.bin"))
        del body
    torch.cuda.empty_cache()
    return paths


class Tokenizer:
    def __init__(self, vocabulary):
        self.vocabulary = vocabulary
        self.pad_token_id = self.eos_token_id = vocabulary - 1
        self.pad_token = self.eos_token = "<eos>"

    def __len__(self):
        return self.vocabulary

    def __call__(self, *_, **__):
        return {"input_ids": [self.eos_token_id]}

    def batch_decode(self, *_, **__):
        return []


def program_of(case):
    """The program's main module; DeepSpeed-Chat's folder is where `dschat` was found."""
    import dschat.rlhf

    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(next(iter(dschat.rlhf.__path__)) + "/x"))))
    path = os.path.join(root, "training", FOLDERS[case["program"]], "main.py")
    spec = importlib.util.spec_from_file_location("deepspeed_chat_main", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.load_hf_tokenizer = lambda *_, **__: Tokenizer(case["model"]["vocab_size"])
    return module


def keep_peaks():
    """DeepSpeed resets PyTorch's peaks while it builds an engine; a recording needs them whole."""
    from deepspeed.accelerator import get_accelerator

    own = get_accelerator()
    own.reset_peak_memory_stats = own.reset_max_memory_allocated = own.reset_max_memory_cached = lambda *_, **__: None


# --- Step 3


def record_ppo(case, module, headroom):
    import torch
    from dschat.rlhf import ppo_trainer, rlhf_engine

    def datasets(args, **_):
        rows, length = args.per_device_generation_batch_size, args.max_prompt_seq_len
        batches = [{"prompt": torch.randint(5, case["model"]["vocab_size"] - 2, (rows, length)),
                    "prompt_att_mask": torch.ones(rows, length, dtype=torch.long)}
                   for _ in range(case.get("steps", 3) * args.generation_batches)]
        return batches, [None] * len(batches), len(batches)

    module.create_datasets = datasets
    for role in ("actor", "ref", "ema", "critic", "reward"):
        name = f"_init_{role}"
        own = getattr(rlhf_engine.DeepSpeedRLHFEngine, name)

        def init(self, *arguments, own=own, role=role, **named):
            with headroom.phase(f"init_{role}", step=-1):
                return own(self, *arguments, **named)

        setattr(rlhf_engine.DeepSpeedRLHFEngine, name, init)
    mark_trainer(ppo_trainer.DeepSpeedPPOTrainer, headroom)
    module.main()


class Marks:
    """Which row is open: a function's parts are told apart by the calls that they begin with."""

    def __init__(self, headroom):
        self.headroom, self.open, self.training = headroom, None, False

    def begin(self, name):
        self.end()
        self.open = self.headroom.phase(name)
        self.open.__enter__()

    def end(self):
        if self.open is not None:
            self.open.__exit__(None, None, None)
        self.open = None


def mark_trainer(trainer, headroom):
    marks = Marks(headroom)
    own = {name: getattr(trainer, name) for name in ("__init__", "_generate_sequence", "generate_experience", "train_rlhf")}

    def part(function, name):
        def call(*arguments, **named):
            if not marks.training:
                marks.begin(name)
            elif name == "critic_values":
                marks.begin("train_critic")
            return function(*arguments, **named)

        return call

    def init(self, *arguments, **named):
        own["__init__"](self, *arguments, **named)
        self.actor_model.forward = part(self.actor_model.forward, "actor_logprob")
        self.ref_model.forward = part(self.ref_model.forward, "ref_logprob")
        self.reward_model.forward_value = part(self.reward_model.forward_value, "reward")
        values = part(self.critic_model.forward_value, "critic_values")

        def scored(*arguments, **named):
            out = values(*arguments, **named)
            if not marks.training:
                marks.begin("gather_logprobs")
            return out

        self.critic_model.forward_value = scored

    def generated(self, *arguments, **named):
        headroom.step()
        marks.begin("generate")
        out = own["_generate_sequence"](self, *arguments, **named)
        marks.end()
        return out

    def experienced(self, *arguments, **named):
        out = own["generate_experience"](self, *arguments, **named)
        marks.end()
        return out

    def trained(self, *arguments, **named):
        marks.training = True
        marks.begin("train_actor")
        out = own["train_rlhf"](self, *arguments, **named)
        marks.end()
        marks.training = False
        return out

    trainer.__init__, trainer._generate_sequence = init, generated
    trainer.generate_experience, trainer.train_rlhf = experienced, trained


# --- Steps 1 and 2


def rows_of(case, length, count):
    """Examples of full length: texts with labels, or chosen and rejected ones."""
    import torch

    start = torch.randint(5, case["model"]["vocab_size"] - 2, (length // 2,))  # chosen and rejected answer one prompt
    text = lambda: torch.cat([start, torch.randint(5, case["model"]["vocab_size"] - 2, (length - length // 2,))])
    ones = torch.ones(length, dtype=torch.long)
    if case["program"] == "step1":
        return [dict(input_ids=ids, attention_mask=ones, labels=ids) for ids in (text() for _ in range(count))]
    return [(text()[None], ones[None], text()[None], ones[None]) for _ in range(count)]


class Training:
    """A loader each of whose steps is a row, from its first micro-batch to the first of the next."""

    def __init__(self, own, a_step, headroom):
        self.own, self.a_step, self.marks, self.headroom = own, a_step, Marks(headroom), headroom

    def __len__(self):
        return len(self.own)

    def __iter__(self):
        for i, batch in enumerate(self.own):
            if i % self.a_step == 0:
                self.marks.end()
                self.headroom.step()
                self.marks.begin("train_actor")
            yield batch
        self.marks.end()


class Evaluation:
    """A loader that is gone through before the first step and after the last: a row each time."""

    def __init__(self, own, init, headroom):
        self.own, self.init, self.headroom, self.times = own, init, headroom, 0

    def __len__(self):
        return len(self.own)

    def __iter__(self):
        self.init.end()
        first = self.times == 0
        self.times += 1
        with self.headroom.phase("first_evaluation" if first else "evaluation", **({"step": -1} if first else {})):
            yield from self.own


def record_supervised(case, module, headroom):
    own, parse, init, seen = module.DataLoader, module.parse_args, Marks(headroom), {}

    def parsed():
        seen["args"] = parse()
        return seen["args"]

    def datasets(*_, **__):
        args = seen["args"]
        count = args.per_device_train_batch_size * args.gradient_accumulation_steps * case.get("steps", 3)
        return [rows_of(case, args.max_seq_len, n) for n in (count, 2 * args.per_device_eval_batch_size)]

    def loader(*arguments, **named):
        made = own(*arguments, **named)
        seen["loaders"] = seen.get("loaders", 0) + 1
        if seen["loaders"] == 1:
            return Training(made, seen["args"].gradient_accumulation_steps, headroom)
        return Evaluation(made, init, headroom)

    module.parse_args, module.create_prompt_dataset, module.DataLoader = parsed, datasets, loader
    init.begin("init")
    module.main()


def record(case, out, paths):
    import torch

    import headroom_recorder as headroom

    torch.empty(1, device="cuda")
    torch.cuda.empty_cache()
    sys.argv = [case["program"]] + [paths.get(word, word) for word in case["words"]] + ["--local_rank", "0"]
    keep_peaks()
    module = program_of(case)
    headroom.start(out, case)
    if case.get("snapshot"):
        torch.cuda.memory._record_memory_history(stacks="python", max_entries=500_000)
    (record_ppo if case["program"] == "step3" else record_supervised)(case, module, headroom)
    if case.get("snapshot"):
        torch.cuda.memory._dump_snapshot(out.replace(".json", ".pickle"))


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
        try:
            record(case, os.path.join(out, case["name"] + ".json"), model_folders(case, folder))
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
