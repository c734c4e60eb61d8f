"""Writes the cases of deepspeed_engines.py: deepspeed_engine_cases.py memory|turns > CASES.json"""

import json
import sys

OPT = dict(model_type="opt", vocab_size=50272, hidden_size=2048, ffn_dim=8192, num_hidden_layers=24, num_attention_heads=32,
           max_position_embeddings=2048, word_embed_proj_dim=2048)
OPT_350M = dict(OPT, hidden_size=1024, ffn_dim=4096, num_attention_heads=16, word_embed_proj_dim=512,
                do_layer_norm_before=False)
GPT2_LARGE = dict(model_type="gpt2", n_embd=1280, n_layer=36, n_head=20, vocab_size=50264)
GPT2_MEDIUM = dict(GPT2_LARGE, n_embd=1024, n_layer=24, n_head=16)

MODELS = {"opt13": (OPT, OPT_350M), "gpt2l": (GPT2_LARGE, GPT2_MEDIUM)}


def case(name, models, stage, response=128, **more):
    actor, critic = MODELS[models]
    return dict(actor=actor, critic=critic, batch=4, prompt=512 - response, response=response, dtype="fp16", steps=3,
                fp16_extra={"initial_scale_power": 4}, zero_stage=stage, name=name, **more)


def named(models, stage, kind, words="", response=128, **more):
    name = f"{models}-z{stage}{words}-{kind}"
    return case(name, models, stage, response, **({} if kind == "none" else {"empty_cache": kind}), **more)


MEMORY = [
    named("opt13", 3, "all", response=32),
    named("opt13", 3, "none", response=32),
    named("opt13", 3, "none", "-off", response=16, offload=True),
    named("opt13", 3, "all", "-off", response=16, offload=True),
    named("gpt2l", 3, "none", response=32),
    named("gpt2l", 3, "all", response=32),
    named("opt13", 3, "inference", response=32),
    named("opt13", 2, "all", "-off", offload=True),
    named("gpt2l", 1, "all"),
    named("gpt2l", 1, "none"),
    named("opt13", 2, "training"),
    named("opt13", 3, "none", "-ckpt", response=32, grad_ckpt=True),
    named("opt13", 3, "none", "-expandable", response=32, _conf="expandable_segments:True"),
    named("opt13", 2, "none", "-off", offload=True),
    named("opt13", 3, "all", "-ckpt", response=32, grad_ckpt=True),
    named("opt13", 2, "inference"),
    named("opt13", 2, "all"),
    named("opt13", 2, "none"),
    named("opt13", 0, "all"),
    named("opt13", 0, "none"),
]

KINDS = ["none", "inference", "none", "all"]
TURNS = [
    case("opt13-z2-turns", "opt13", 2, 16, turns=dict(kinds=KINDS, block=4, turns=2)),
    case("opt13-z3-turns", "opt13", 3, 8, turns=dict(kinds=KINDS, block=3, turns=1)),
]

if __name__ == "__main__":
    print(json.dumps({"memory": MEMORY, "turns": TURNS}[sys.argv[1]], indent=1))
