#!/usr/bin/python3
"""Holds what Headroom writes for verl against verl's own checks.

  docs/check_verl_written.py VERL_CHECKOUT [HEADROOM] > docs/VERL_WRITTEN.md

VERL_CHECKOUT: a git clone of verl with its release tags. Needs OmegaConf (Debian: python3-omegaconf). Not part of the
tests: it needs verl's sources.

For each release and each launch `headroom plan` writes the best choice as words, as a script and as YAML. The words
(and the script's, followed by `headroom`'s own reader no further than a shell would: they are plain) are laid over the
release's own composed configuration as Hydra does: a key must be there, `+key` must not. YAML stands over the same
configuration. Then verl's own dataclasses are made of each section (actor, critic, reference, rollout) and its
validate_config is called. What these import beside verl is replaced by stand-ins that accept everything.
"""
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import io
import os
import shlex
import subprocess
import sys
import tarfile
import tempfile
import types
import typing

from omegaconf import DictConfig, OmegaConf

RELEASES = ["v0.5.0", "v0.6.0", "v0.7.0", "v0.7.1", "v0.8.0", "v0.9.0"]

COMMON = ("data.train_batch_size=256 data.max_prompt_length=1024 data.max_response_length=2048"
          " actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm"
          " actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4"
          " actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4 trainer.n_gpus_per_node=8 trainer.nnodes=1")
GRPO = (" algorithm.adv_estimator=grpo actor_rollout_ref.rollout.n=8 actor_rollout_ref.actor.use_kl_loss=True"
        " actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4")
PPO = (" algorithm.adv_estimator=gae critic.model.path=Qwen/Qwen2.5-7B-Instruct critic.ppo_micro_batch_size_per_gpu=4"
       " critic.ppo_mini_batch_size=64")
LAUNCHES = {
    "GRPO": (GRPO, []),
    "GRPO, FSDP2, offloaded": (GRPO + " actor_rollout_ref.actor.strategy=fsdp2", ["param_offload=true",
                                                                                    "optimizer_offload=true"]),
    "GRPO, token budgets": (GRPO, ["dynamic_batching=true"]),
    "PPO": (PPO, []),
    "GRPO, adapters": (GRPO + " actor_rollout_ref.model.lora_rank=32 actor_rollout_ref.model.lora_alpha=32"
                       " actor_rollout_ref.rollout.load_format=safetensors", []),
    "GRPO, Megatron": (GRPO + " actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2"
                       " actor_rollout_ref.ref.megatron.tensor_model_parallel_size=2", []),
}


def configuration(name):
    return "ppo_megatron_trainer" if "Megatron" in name else "ppo_trainer"


class Anything:
    """Stands for what verl imports from elsewhere: is called, indexed, inherited from, used as a decorator."""

    def __init__(self, *args, **kwargs):
        pass

    def __call__(self, *args, **kwargs):
        if len(args) == 1 and not kwargs and (isinstance(args[0], type) or callable(args[0])):
            return args[0]
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __mro_entries__(self, bases):
        return (type("Anything", (), {}),)

    def __getitem__(self, key):
        return self

    def __iter__(self):
        return iter(())

    def __bool__(self):
        return False

    def __or__(self, other):
        return self

    __ror__ = __or__

    def __len__(self):
        return 0

    def __neg__(self):
        return self

    def __ge__(self, other):
        return True

    __gt__ = __le__ = __lt__ = __ge__


class Stand(types.ModuleType):
    __version__ = "99.0.0"
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes what cannot be found, after all other finders."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "verl":
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return Stand(spec.name)

    def exec_module(self, module):
        pass


def instantiate(config, *args, **kwargs):
    """hydra.utils.instantiate, as far as verl's configurations use it."""
    plain = OmegaConf.to_container(config, resolve=True) if OmegaConf.is_config(config) else config

    def make(node):
        if isinstance(node, list):
            return [make(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "_target_" not in node:
            return {key: make(value) for key, value in node.items()}
        module, name = node["_target_"].rsplit(".", 1)
        kind = getattr(importlib.import_module(module), name)
        return kind(**{key: make(value) for key, value in node.items() if key not in ("_target_", "_convert_")})

    return make(plain)


def package(name, folder):
    module = types.ModuleType(name)
    module.__path__ = [folder]
    sys.modules[name] = module
    if "." in name:
        above, below = name.rsplit(".", 1)
        setattr(sys.modules[above], below, module)
    return module


def load(source):
    """verl's packages without what their __init__ files import."""
    sys.meta_path.append(Finder())
    ranks = Stand("vllm.config.lora")
    ranks.MaxLoRARanks = typing.Literal[1, 8, 16, 32, 64, 128, 256, 320, 512]
    sys.modules["vllm"], sys.modules["vllm.config"], sys.modules["vllm.config.lora"] = Stand("vllm"), Stand("vllm.config"), ranks
    importlib.metadata.version = lambda name: Stand.__version__
    hydra = Stand("hydra")
    hydra.utils = Stand("hydra.utils")
    hydra.utils.instantiate = instantiate
    sys.modules["hydra"], sys.modules["hydra.utils"] = hydra, hydra.utils
    for name in ("verl", "verl.utils", "verl.trainer", "verl.trainer.ppo", "verl.workers"):
        module = package(name, os.path.join(source, *name.split(".")))
        module.__getattr__ = of_init  # what the __init__ files would have brought


def of_init(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return Anything()


class Refused(Exception):
    pass


def has(config, key):
    """Whether a key stands there, mandatory ones without a value too."""
    for part in key.split("."):
        config = config._get_node(part) if isinstance(config, DictConfig) else None
        if config is None:
            return False
    return True


def lay(config, word):
    """One word of a launch, as Hydra lays it."""
    key, _, value = word.partition("=")
    parsed = OmegaConf.create("x: " + (value if value else "null"))
    value = parsed.get("x")
    there = has(config, key.lstrip("+"))
    if key.startswith("++"):
        pass
    elif key.startswith("+") and there:
        raise Refused(f"{word}: Could not append to config. An item is already at '{key[1:]}'.")
    elif not key.startswith("+") and not there:
        raise Refused(f"{word}: Could not override '{key}'. Key is not in struct")
    OmegaConf.set_struct(config, False)
    OmegaConf.update(config, key.lstrip("+"), value, merge=False, force_add=True)


def composed(source, words, name="ppo_trainer"):
    config = OmegaConf.load(os.path.join(source, "verl", "trainer", "config", f"_generated_{name}.yaml"))
    for word in words:
        lay(config, word)
    return config


def as_worker(config):
    """The reference's section with its keys renamed as verl's worker renames them: it is made of the actor's class."""
    ref = OmegaConf.create(OmegaConf.to_container(config.actor_rollout_ref.ref, resolve=False))
    OmegaConf.set_struct(ref, False)
    for key in [key for key in ref if key.startswith("log_prob_")]:
        value = ref._get_node(key)
        ref.pop(key)
        name = key.replace("log_prob_", "ppo_")
        ref[name if name != "ppo_use_dynamic_bsz" else "use_dynamic_bsz"] = value
    ref.ppo_mini_batch_size = config.actor_rollout_ref.actor.ppo_mini_batch_size
    holder = OmegaConf.create({"actor_rollout_ref": {"ref": ref}})
    whole = OmegaConf.merge(config, holder)
    OmegaConf.set_struct(whole, False)
    whole.actor_rollout_ref.ref = ref
    return whole.actor_rollout_ref.ref


def validate(config):
    """verl's dataclasses of each section and its validate_config."""
    from verl.utils.config import omega_conf_to_dataclass

    try:
        from verl.workers.config.model import HFModelConfig

        HFModelConfig.__post_init__ = lambda self: None  # reads the model's files
    except ImportError:
        pass
    made = []
    use_critic = config.algorithm.adv_estimator == "gae"
    use_reference = bool(config.actor_rollout_ref.actor.get("use_kl_loss")) or bool(config.algorithm.use_kl_in_reward)
    sections = [config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout]
    if use_reference:
        sections.append(as_worker(config))
    if use_critic:
        sections.append(config.critic)
    for section in sections:
        if section.get("_target_"):
            made.append(type(omega_conf_to_dataclass(section)).__name__)
    try:
        from verl.utils.config import validate_config
    except ImportError:
        from verl.trainer.ppo.ray_trainer import RayPPOTrainer

        trainer = object.__new__(RayPPOTrainer)
        trainer.config, trainer.use_critic, trainer.use_reference_policy = config, use_critic, use_reference
        trainer._validate_config()
        return made
    validate_config(config=config, use_reference_policy=use_reference, use_critic=use_critic)
    return made


def words_of_script(text):
    text = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))
    words = shlex.split(text.replace("\\\n", " "))
    return [word for word in words[words.index("verl.trainer.main_ppo") + 1:] if word != "$@" and not word.startswith("--config-name")]


def written(headroom, release, start, launch, fixed):
    folder = tempfile.mkdtemp()
    script = os.path.join(folder, "run.sh")
    with open(script, "w") as out:
        out.write(f"python3 -m verl.trainer.main_ppo --config-name={start} " + COMMON + launch + "\n")
    paths = {form: os.path.join(folder, "best." + form) for form in ("overrides", "script", "yaml")}
    command = [headroom, "plan", script, "--gpu", "h100", "--quiet", "--set", "headroom.versions.verl=" + release]
    for knob in fixed:
        command += ["--fix", knob]
    for form, path in paths.items():
        command += ["--" + form, path]
    done = subprocess.run(command, capture_output=True, text=True)
    if any(not os.path.exists(path) for path in paths.values()):
        raise Refused("headroom: " + (done.stderr.strip().split("\n") or ["no choice fits"])[0])
    return {form: open(path).read() for form, path in paths.items()}


def one(source, release, headroom, name):
    """One launch under one release, in a process of its own: prints a row's cells."""
    load(source)
    launch, fixed = LAUNCHES[name]
    start = configuration(name)
    base = shlex.split(COMMON + launch)
    texts = written(headroom, release, start, launch, fixed)
    changed = [shlex.split(line)[0] for line in texts["overrides"].split("\n") if line and line[0] != "#"]
    made = validate(composed(source, base + changed, start))
    validate(composed(source, words_of_script(texts["script"]), start))
    over = OmegaConf.create(texts["yaml"])
    if start not in list(over.pop("defaults")):
        raise Refused("the YAML stands over nothing of verl's")
    OmegaConf.set_struct(over, False)
    for own in ("hydra", "headroom"):
        over.pop(own, None)
    config = composed(source, [], start)
    OmegaConf.set_struct(config, False)
    validate(OmegaConf.merge(config, over))
    print(" | ".join([release, name, " ".join(changed) or "nothing", ", ".join(made) or "no dataclasses", "accepted"]))


def main(checkout, headroom):
    print("# What is written for verl, held against verl's own checks\n")
    print("Made by `docs/check_verl_written.py` from verl's sources at the tags named. Each row: `headroom plan` wrote its best\n"
          "choice as words, script and YAML; each was laid over that release's composed configuration as Hydra does, verl's\n"
          "dataclasses were made of the sections, and its `validate_config` was called.\n")
    print("| release | launch | words | dataclasses made | verl says |\n| --- | --- | --- | --- | --- |")
    failed = 0
    for tag in RELEASES:
        source = tempfile.mkdtemp()
        archive = subprocess.run(["git", "-C", checkout, "archive", tag, "verl"], capture_output=True, check=True).stdout
        tarfile.open(fileobj=io.BytesIO(archive)).extractall(source)
        for name in LAUNCHES:
            done = subprocess.run([sys.executable, os.path.abspath(__file__), "--one", source, tag[1:], headroom, name],
                                  capture_output=True, text=True)
            if done.returncode == 0:
                print("| " + done.stdout.strip().split("\n")[-1] + " |")
                continue
            failed += 1
            last = [line for line in done.stderr.strip().split("\n") if line][-1] if done.stderr.strip() else "?"
            print(f"| {tag[1:]} | {name} | | | **refused**: {last[:300]} |")
        sys.stdout.flush()
    print(f"\n{len(RELEASES) * len(LAUNCHES) - failed} of {len(RELEASES) * len(LAUNCHES)} accepted in all three forms.")
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        one(*sys.argv[2:6])
    else:
        sys.exit(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "./headroom"))
