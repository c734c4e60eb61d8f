"""Records ColossalChat's own training scripts: random weights, random tokens of full length.

usage: colossalchat_trainers.py CASES.json FOLDER [NAME...]   every case (or the named ones), each a process with one GPU

A case: name; program (colossalchat/train_sft, train_dpo, train_orpo, train_rm); words, its command line, whose model path is `MODEL`;
model, values of a config.json; steps (default 3). Scripts, trainers and ColossalAI are not changed. Stand-ins: datasets,
the tokenizer, loggers, packages that these scripts import and do not use, pydantic where it is missing, flash-attn's
kernels. Rows: init; train_actor, a step from its first micro-batch to the first of the next.

Needs on PYTHONPATH: ColossalAI 0.5, ColossalChat's coati; its scripts in SCRIPTS (environment). Runs that hang end after
LIMIT seconds (environment, 200).
"""

import faulthandler
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import stand_ins

ABSENT = ["datasets", "fabric", "contexttimer", "rpyc", "galore_torch", "diffusers", "bitsandbytes", "ray", "vllm", "wandb",
          "fastapi", "uvicorn", "loralib", "jsonlines", "torch_int", "latex2sympy2_extended", "math_verify", "apex",
          "tensornvme", "google", "pre_commit"]


def fill_loralib(module):
    class LoRALayer:
        def __init__(self, r, lora_alpha, lora_dropout, merge_weights):
            self.r, self.lora_alpha, self.merged, self.merge_weights = r, lora_alpha, False, merge_weights

    module.LoRALayer = LoRALayer


def prepare_imports():
    stand_ins.install(ABSENT, "2.0.0", {"loralib": fill_loralib})
    stand_ins.install_flash_attention()
    stand_ins.install_pydantic()


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

    @classmethod
    def from_pretrained(cls, *_, **__):
        return cls()


class Collator:
    """Stands for ColossalChat's collators: rows of the maximum length."""

    def __init__(self, case, length):
        self.case, self.length = case, length

    def __call__(self, rows):
        import torch

        count, vocabulary = len(rows), self.case["model"]["vocab_size"]
        tokens = lambda: torch.randint(5, vocabulary, (count, self.length))
        ones = torch.ones(count, self.length, dtype=torch.bool)
        if self.case["program"].endswith("train_sft"):
            ids = tokens()
            labels = ids.clone()
            labels[:, : self.length // 2] = -100
            return dict(input_ids=ids, attention_mask=ones, labels=labels)
        loss = ones.clone()
        loss[:, : self.length // 2] = False
        return dict(chosen_input_ids=tokens(), chosen_attention_mask=ones, chosen_loss_mask=loss, reject_input_ids=tokens(),
                    reject_attention_mask=ones.clone(), reject_loss_mask=loss.clone())


class Stepped:
    def __init__(self, loader, a_step, headroom):
        self.loader, self.a_step, self.headroom, self.row = loader, a_step, headroom, None

    def __len__(self):
        return len(self.loader)

    def __getattr__(self, name):
        return getattr(self.loader, name)

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
        self.end()


def run(case, folder, headroom):
    path = os.path.join(os.environ["SCRIPTS"], os.path.basename(case["program"]) + ".py")
    source = open(path).read()
    before, call, rest = source.rpartition("\n    train(args)")
    assert call and not rest.strip(), "the script no longer ends with train(args)"
    sys.argv = [path] + [folder if word == "MODEL" else word for word in case["words"]]
    space = {"__name__": "__main__", "__file__": path}
    init = headroom.phase("init")
    init.__enter__()
    exec(compile(before + "\n    train = train\n", path, "exec"), space)
    args = space["args"]
    length = getattr(args, "max_len", None) or getattr(args, "max_length", None)
    rows = list(range(args.batch_size * args.accumulation_steps * case.get("steps", 3)))
    space.update(AutoTokenizer=Tokenizer, load_tokenized_dataset=lambda *_, **__: rows)
    for name in ("DataCollatorForSupervisedDataset", "DataCollatorForPreferenceDataset"):
        space[name] = lambda *_, **__: Collator(case, length)
    trainer = next(value for name, value in space.items() if name.endswith("Trainer") and isinstance(value, type))
    own = trainer._before_fit

    def before_fit(self, *arguments, **named):
        init.__exit__(None, None, None)
        stepped = lambda loader: Stepped(loader, args.accumulation_steps, headroom)
        if arguments:
            arguments = (stepped(arguments[0]), *arguments[1:])
        else:
            first = next(name for name in named if name.startswith("train"))
            named[first] = stepped(named[first])
        return own(self, *arguments, **named)

    trainer._before_fit = before_fit
    args.save_path = args.save_dir = None
    space["train"](args)


def record(case, out, folder):
    import torch

    import headroom_recorder as headroom

    torch.empty(1, device="cuda")
    torch.cuda.empty_cache()
    headroom.start(out, case)
    if case.get("snapshot"):
        torch.cuda.memory._record_memory_history(stacks="python", max_entries=500_000)
    run(case, folder, headroom)
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
        case, folder = cases[os.environ["CASE"]], os.environ["MODEL_FOLDER"]
        prepare_imports()
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
