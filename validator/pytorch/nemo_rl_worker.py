"""Records NeMo RL's own DTensor policy worker: random weights, random tokens, phases as `headroom compare` reads them.

usage: nemo_rl_worker.py CASES.json FOLDER [NAME...]   every case (or the named ones), each rank a process with one GPU

A case: name; config, a GRPO configuration of NeMo RL, whole; model, values of a config.json; lengths, of every sequence
(default: all of max_total_sequence_length); steps (default 2). The worker is not changed. Stand-ins: Ray (its decorator
passes classes on), the rollout engine (whoever receives weights answers at once), loggers, servers, flash-attn (PyTorch's
own copy of FlashAttention 2 behind its names). Rows: init; weight_sync (offload_before_refit, stream_weights,
offload_after_refit); actor_logprob; ref_logprob; train_actor; what they call is nested.

Needs NeMo RL's package on PYTHONPATH, of 0.5. A run that hangs is ended after LIMIT seconds (environment, 150).
"""

import faulthandler
import importlib.abc
import importlib.machinery
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import types

ABSENT = ("ray", "fastapi", "uvicorn", "mlflow", "swanlab", "wandb", "zmq", "hydra", "flash_attn", "vllm",
          "math_verify")


class Made(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Made(name, (Anything,), {})


class Anything(metaclass=Made):
    """Whatever is imported of a package that is not there: a base class, a decorator, a value."""

    def __init__(self, *_, **__):
        pass

    def __class_getitem__(cls, _):
        return cls

    def __getattr__(self, name):
        return Anything()

    def __call__(self, *arguments, **_):
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else Anything()


class StandIn(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Exception,), {}) if name in ("Again", "ZMQError") else Made(name, (Anything,), {})


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ABSENT:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        module.__version__ = "2.8.3"
        fill = {"ray": fill_ray, "hydra.utils": fill_hydra, "flash_attn": fill_flash, "flash_attn.bert_padding": fill_padding}
        if module.__name__ in fill:
            fill[module.__name__](module)


def fill_ray(module):
    def remote(*arguments, **_):
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else lambda wrapped: wrapped

    module.remote = remote
    module.get = lambda value, **_: value
    module.get_gpu_ids = lambda: [0]


def fill_hydra(module):
    def get_class(path):
        owner, name = path.rsplit(".", 1)
        return getattr(importlib.import_module(owner), name)

    module.get_class = get_class


def fill_flash(module):
    import torch

    forward = torch.ops.aten._flash_attention_forward

    def scale_of(scale, q):
        return scale if scale is not None else q.shape[-1] ** -0.5

    def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0,
                               softmax_scale=None, causal=False, **_):
        return forward(q, k, v, cu_seqlens_q, cu_seqlens_k, int(max_seqlen_q), int(max_seqlen_k), dropout_p, causal, False,
                       scale=scale_of(softmax_scale, q))[0]

    def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, **_):
        return forward(q, k, v, None, None, q.shape[1], k.shape[1], dropout_p, causal, False,
                       scale=scale_of(softmax_scale, q))[0]

    module.flash_attn_varlen_func, module.flash_attn_func = flash_attn_varlen_func, flash_attn_func


def fill_padding(module):
    def refuse(*_, **__):
        raise NotImplementedError("padded batches are not recorded with flash-attn")

    module.index_first_axis = module.pad_input = module.unpad_input = refuse


class Receiver:
    """The engine's end of the socket: answers whatever is sent, and lets go of what it was lent, as who opened a buffer of
    another process does; else the sender's allocator would keep it for good."""

    def send_pyobj(self, message):
        import torch

        handle = message[0] if isinstance(message, tuple) else None
        if isinstance(handle, tuple):  # as torch.multiprocessing.reductions makes it of a CUDA tensor
            *_, counter, offset, _, _ = handle[0]
            torch.UntypedStorage._release_ipc_counter(counter, offset, device="cuda:0")

    def recv(self):
        return b""


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
    pad_token_id, eos_token_id = 1, 2


def batch_of(case, policy):
    """All sequences of a step, as grpo_train hands them on."""
    import torch
    from nemo_rl.distributed.batched_data_dict import BatchedDataDict

    grpo = case["config"]["grpo"]
    count = grpo["num_prompts_per_step"] * grpo["num_generations_per_prompt"]
    longest = policy["max_total_sequence_length"]
    lengths = torch.tensor(case.get("lengths") or [longest] * count)
    width = int(lengths.max())
    torch.manual_seed(0)
    inside = torch.arange(width)[None, :] < lengths[:, None]
    data = BatchedDataDict({"input_ids": torch.randint(5, case["model"]["vocab_size"], (count, width)), "input_lengths": lengths,
                            "token_mask": inside.float(), "sample_mask": torch.ones(count)})
    return data


def for_training(data):
    import torch

    shape = data["input_ids"].shape
    for key in ("advantages", "generation_logprobs", "prev_logprobs", "reference_policy_logprobs"):
        data[key] = torch.randn(shape) * 0.01 - (0 if key == "advantages" else 3)
    return data


def mine(data, policy, rank, ranks, tokens, batch=None):
    """This rank's part, cut into micro-batches as the policy's driver cuts it."""
    cfg = policy["dtensor_cfg"]
    apart = cfg["tensor_parallel_size"] * cfg["context_parallel_size"]
    more = {}
    keys = dict(input_key="input_ids", input_lengths_key="input_lengths")
    if policy["dynamic_batching"]["enabled"]:
        settings = policy["dynamic_batching"]
        more["dynamic_batching_args"] = dict(keys, sequence_length_round=settings["sequence_length_round"],
                                             max_tokens_per_microbatch=settings[tokens])
    elif policy["sequence_packing"]["enabled"]:
        settings = policy["sequence_packing"]
        more["sequence_packing_args"] = dict(keys, algorithm=settings["algorithm"], max_tokens_per_microbatch=settings[tokens],
                                             sequence_length_pad_multiple=cfg["tensor_parallel_size"])
    parts = data.shard_by_batch_size(ranks // apart, batch_size=batch, **more)
    parts = parts[0] if isinstance(parts, tuple) else parts
    return parts[rank // apart]


def nested(owner, headroom):
    """Each method of the worker that a step calls is a row."""
    names = dict(offload_before_refit=None, offload_after_refit=None, stream_weights_via_ipc_zmq="stream_weights",
                 prepare_for_lp_inference=None, get_logprobs=None, prepare_for_training=None, train=None)
    headroom.mark(owner, **{method: name or method for method, name in names.items()})


def record(case, out, rank, ranks):
    sys.meta_path.insert(0, Absent())
    import torch

    import headroom_recorder as headroom

    said = lambda what: print(f"{case['name']} rank {rank}: {what} {time.perf_counter() - BEGAN:.1f} s", file=sys.stderr,
                              flush=True)
    policy = case["config"]["policy"]
    policy["model_name"] = os.environ["MODEL_FOLDER"]
    torch.empty(1, device="cuda")
    torch.cuda.empty_cache()
    # It registers an operation's sharding that PyTorch has had since.
    patches = types.ModuleType("nemo_rl.models.policy.workers.patches")
    patches.apply_torch_aten_alias_tensor_patch = lambda: None
    sys.modules[patches.__name__] = patches
    from nemo_rl.algorithms.loss_functions import ClippedPGLossFn
    from nemo_rl.models.policy.workers.dtensor_policy_worker import DTensorPolicyWorker

    said("imported")
    headroom.start(out, case)
    if case.get("snapshot"):
        torch.cuda.memory._record_memory_history(stacks="python", max_entries=500_000)
    with headroom.phase("init"):
        worker = DTensorPolicyWorker(policy, Tokenizer(), init_reference_model=case.get("reference", True))
    worker.maybe_init_zmq = lambda: None
    worker.zmq_socket = Receiver()
    nested(worker, headroom)
    said("made")
    loss = ClippedPGLossFn(case["config"]["loss_fn"])
    data = batch_of(case, policy)
    for _ in range(case.get("steps", 2)):
        headroom.step()
        step(case, worker, headroom, policy, loss, data, rank, ranks)
        said("stepped")
    if case.get("snapshot") and rank == 0:
        torch.cuda.memory._dump_snapshot(out.replace(".json", ".pickle"))
    if rank == 0:
        about = json.load(open(out))
        about["wrapped"] = sorted({type(m).__name__ for m in worker.model.modules()})[:40]
        json.dump(about, open(out, "w"))


def step(case, worker, headroom, policy, loss, data, rank, ranks):
    import copy

    with headroom.phase("weight_sync"):
        worker.offload_before_refit()
        worker.stream_weights_via_ipc_zmq(buffer_size_bytes=int(policy["refit_buffer_size_gb"] * 2**30))
        worker.offload_after_refit()
    part = lambda tokens, batch=None: mine(copy.deepcopy(data), policy, rank, ranks, tokens, batch)
    with headroom.phase("actor_logprob"):
        worker.prepare_for_lp_inference()
        worker.get_logprobs(data=part("logprob_mb_tokens"))
    if case.get("reference", True):
        with headroom.phase("ref_logprob"):
            worker.get_reference_policy_logprobs(data=part("logprob_mb_tokens"))
    with headroom.phase("train_actor"):
        worker.prepare_for_training()
        batch = policy["train_global_batch_size"]
        shown = mine(for_training(copy.deepcopy(data)), policy, rank, ranks, "train_mb_tokens", batch)
        worker.train(shown, loss, gbs=batch, mbs=policy["train_micro_batch_size"])


def launch(case, out, cases_file):
    """One process a rank, each of which sees its GPU alone, as Ray starts them."""
    ranks = case["config"]["cluster"]["gpus_per_node"] * case["config"]["cluster"]["num_nodes"]
    folder = tempfile.mkdtemp()
    port = str(20000 + random.randrange(20000))
    base = dict(os.environ, CASE=case["name"], MODEL_FOLDER=folder, WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                MASTER_PORT=port, LOCAL_RANK="0")
    subprocess.run([sys.executable, "-c", f"import nemo_rl_worker as w, json; w.model_folder("
                    f"[c for c in json.load(open({cases_file!r})) if c['name'] == {case['name']!r}][0], {folder!r})"],
                   check=True, env=base)
    running = []
    for rank in range(ranks):
        log = open(os.path.join(out, f"{case['name']}.rank{rank}.log"), "w")
        running.append(subprocess.Popen([sys.executable, __file__, cases_file, out], stdout=log, stderr=log,
                                        env=dict(base, RANK=str(rank), CUDA_VISIBLE_DEVICES=str(rank))))
    return running


def main():
    global BEGAN
    BEGAN = time.perf_counter()
    cases = {case["name"]: case for case in json.load(open(sys.argv[1]))}
    out, names = sys.argv[2], sys.argv[3:] or list(cases)
    if os.environ.get("CASE"):
        faulthandler.dump_traceback_later(int(os.environ.get("LIMIT", "150")), exit=True)
        rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        record(cases[os.environ["CASE"]], os.path.join(out, os.environ["CASE"] + ".json"), rank, ranks)
        sys.stdout.flush()
        os._exit(0)
    os.makedirs(out, exist_ok=True)
    beside, running = int(os.environ.get("BESIDE", "1")), []
    for name in names:
        while sum(any(p.poll() is None for p in group) for group in running) >= beside:
            time.sleep(0.2)
        running.append(launch(cases[name], out, sys.argv[1]))
    failed = [n for n, group in zip(names, running) if any([p.wait() != 0 for p in group])]
    print(f"{len(names) - len(failed)} of {len(names)} recorded" + (f"; failed: {' '.join(failed)}" if failed else ""))


if __name__ == "__main__":
    main()
