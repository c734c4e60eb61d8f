"""Draws cases of the plain PyTorch loop at random over all keys at once, so that a check of predictions against
recordings meets combinations that nobody thought of.

usage: python3 random_cases.py SEED STREAMS LOOPS OUT

Writes OUT/NAME.json, one case a file: STREAMS small models of two to four layers whose every allocation is recorded
(`trace`), then LOOPS models of real depth as whole loops. The same seed gives the same cases, each independent of how
many are drawn. `rlhf_step.py` records a case; `headroom compare` holds a recording against the prediction.
"""

import json
import os
import random
import sys

LLAMA_TARGETS = ["q_proj", "v_proj"]
TARGETS = {"gpt2": ["c_attn"], "gpt_neox": ["query_key_value"], "falcon": ["query_key_value"]}
# Families whose dropout modules have a probability above 0 by default.
DROPS = ("gpt2", "opt")


class Draw(random.Random):
    def maybe(self, probability):
        return self.random() < probability

    def weighted(self, **weights):
        return self.choices(list(weights), list(weights.values()))[0]


def heads(draw):
    """Width of a head, heads, groups of them that share keys and values."""
    width = draw.choices([32, 48, 64, 72, 80, 96, 100, 128, 160, 256], [1, 1, 8, 1, 4, 4, 1, 6, 1, 1])[0]
    groups = draw.choice([1, 2, 3, 4, 5, 6, 7, 8])
    share = draw.choice([1, 1, 1, 2, 3, 4, 7])
    while groups * share * width > 1400 or groups * share > 16:
        groups, share = max(1, groups - 1), max(1, share - 1)
    return width, groups * share, groups


def vocabulary(draw):
    return draw.choice([1031, 4096, 8193, 16384, 20011, 32000, 32064, 50257, 50272, 50304, 65537, 99991, 128256, 151936])


def grouped(draw, family, **more):
    """Llama and its likes: hidden size and the width of heads need not agree."""
    width, count, groups = heads(draw)
    config = {
        "model_type": family, "vocab_size": vocabulary(draw),
        "hidden_size": width * count if draw.maybe(0.7) else draw.randrange(128, 1200, 8),
        "intermediate_size": draw.choice([draw.randrange(256, 3000, 8), draw.randrange(257, 2999, 2)]),
        "num_hidden_layers": draw.choice([2, 2, 2, 3, 4]),
        "num_attention_heads": count, "num_key_value_heads": groups, "head_dim": width,
    }
    if draw.maybe(0.5):
        config["tie_word_embeddings"] = draw.maybe(0.6)
    return {**config, **more}


def biased(draw, family):
    config = grouped(draw, family)
    if draw.maybe(0.25):
        config["attention_bias"] = True
    if draw.maybe(0.08):
        config["attention_dropout"] = 0.1
    return config


def plain_heads(draw, family, **more):
    """Families in which heads split the hidden size."""
    config = grouped(draw, family, **more)
    config["hidden_size"] = config["num_attention_heads"] * config.pop("head_dim")
    return config


def single_heads(draw, family):
    config = plain_heads(draw, family)
    del config["num_key_value_heads"]
    return config


def opt(draw, family):
    config = single_heads(draw, family)
    config["ffn_dim"] = config.pop("intermediate_size")
    config["max_position_embeddings"] = 2048
    config["word_embed_proj_dim"] = draw.choice([config["hidden_size"], config["hidden_size"], 256, 392])
    config["do_layer_norm_before"] = draw.maybe(0.75)
    return config


def gpt2(draw, family):
    base = single_heads(draw, family)
    config = {"model_type": family, "vocab_size": base["vocab_size"], "n_embd": base["hidden_size"],
              "n_layer": base["num_hidden_layers"], "n_head": base["num_attention_heads"]}
    if draw.maybe(0.3):
        config["n_inner"] = base["intermediate_size"]
    if "tie_word_embeddings" in base:
        config["tie_word_embeddings"] = base["tie_word_embeddings"]
    return config


def neox(draw, family):
    config = {**single_heads(draw, family), "max_position_embeddings": 2048}
    if draw.maybe(0.3):
        config["use_parallel_residual"] = False
    return config


def falcon(draw, family):
    config = plain_heads(draw, family)
    groups = config.pop("num_key_value_heads")
    del config["intermediate_size"]
    if draw.maybe(0.4):
        config.update(new_decoder_architecture=True, num_kv_heads=groups)
    else:
        config.update(multi_query=draw.maybe(0.6), parallel_attn=draw.maybe(0.7), bias=draw.maybe(0.3))
    return config


def gemma(draw, family):
    config = grouped(draw, family, tie_word_embeddings=True)
    if family == "gemma2":
        config["sliding_window"] = 64
    return config


FAMILIES = {
    "llama": (8, biased), "qwen2": (7, plain_heads), "qwen3": (6, biased), "opt": (8, opt), "gpt2": (8, gpt2),
    "gpt_neox": (7, neox), "mistral": (4, grouped), "gemma": (4, gemma), "phi": (4, plain_heads), "falcon": (4, falcon),
    "gemma2": (1, gemma), "phi3": (1, plain_heads), "olmo2": (1, plain_heads), "stablelm": (1, plain_heads),
    "starcoder2": (1, plain_heads), "granite": (1, plain_heads), "cohere": (1, plain_heads), "smollm3": (1, plain_heads),
}

DEEP = {
    "qwen2-0.5b": dict(model_type="qwen2", vocab_size=151936, hidden_size=896, intermediate_size=4864,
                       num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2, tie_word_embeddings=True),
    "qwen2-1.5b": dict(model_type="qwen2", vocab_size=151936, hidden_size=1536, intermediate_size=8960,
                       num_hidden_layers=28, num_attention_heads=12, num_key_value_heads=2, tie_word_embeddings=True),
    "qwen3-0.6b": dict(model_type="qwen3", vocab_size=151936, hidden_size=1024, intermediate_size=3072, head_dim=128,
                       num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8, tie_word_embeddings=True),
    "llama-1b": dict(model_type="llama", vocab_size=128256, hidden_size=2048, intermediate_size=8192, head_dim=64,
                     num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, tie_word_embeddings=True),
    "tinyllama": dict(model_type="llama", vocab_size=32000, hidden_size=2048, intermediate_size=5632,
                      num_hidden_layers=22, num_attention_heads=32, num_key_value_heads=4),
    "smollm-135m": dict(model_type="llama", vocab_size=49152, hidden_size=576, intermediate_size=1536,
                        num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3, tie_word_embeddings=True),
    "smollm-360m": dict(model_type="llama", vocab_size=49152, hidden_size=960, intermediate_size=2560,
                        num_hidden_layers=32, num_attention_heads=15, num_key_value_heads=5, tie_word_embeddings=True),
    "opt-125m": dict(model_type="opt", vocab_size=50272, hidden_size=768, ffn_dim=3072, num_hidden_layers=12,
                     num_attention_heads=12, max_position_embeddings=2048, word_embed_proj_dim=768),
    "opt-350m": dict(model_type="opt", vocab_size=50272, hidden_size=1024, ffn_dim=4096, num_hidden_layers=24,
                     num_attention_heads=16, max_position_embeddings=2048, word_embed_proj_dim=512,
                     do_layer_norm_before=False),
    "opt-1.3b": dict(model_type="opt", vocab_size=50272, hidden_size=2048, ffn_dim=8192, num_hidden_layers=24,
                     num_attention_heads=32, max_position_embeddings=2048, word_embed_proj_dim=2048),
    "gpt2": dict(model_type="gpt2", vocab_size=50257, n_embd=768, n_layer=12, n_head=12),
    "gpt2-medium": dict(model_type="gpt2", vocab_size=50257, n_embd=1024, n_layer=24, n_head=16),
    "gpt2-large": dict(model_type="gpt2", vocab_size=50257, n_embd=1280, n_layer=36, n_head=20),
    "pythia-160m": dict(model_type="gpt_neox", vocab_size=50304, hidden_size=768, intermediate_size=3072,
                        num_hidden_layers=12, num_attention_heads=12, max_position_embeddings=2048),
    "pythia-410m": dict(model_type="gpt_neox", vocab_size=50304, hidden_size=1024, intermediate_size=4096,
                        num_hidden_layers=24, num_attention_heads=16, max_position_embeddings=2048),
    "pythia-1b": dict(model_type="gpt_neox", vocab_size=50304, hidden_size=2048, intermediate_size=8192,
                      num_hidden_layers=16, num_attention_heads=8, max_position_embeddings=2048),
    "phi-1.5": dict(model_type="phi", vocab_size=51200, hidden_size=2048, intermediate_size=8192,
                    num_hidden_layers=24, num_attention_heads=32),
    "falcon-rw-1b": dict(model_type="falcon", vocab_size=50304, hidden_size=2048, num_hidden_layers=24,
                         num_attention_heads=32, alibi=True, multi_query=False, parallel_attn=False, bias=True),
    "gemma-6-layers": dict(model_type="gemma", vocab_size=256000, hidden_size=2048, intermediate_size=16384,
                           num_hidden_layers=6, num_attention_heads=8, num_key_value_heads=1, head_dim=256),
}


def small_model(draw):
    family = draw.choices(list(FAMILIES), [weight for weight, _ in FAMILIES.values()])[0]
    return FAMILIES[family][1](draw, family)


def precision(draw, case):
    case["precision"] = draw.weighted(bf16=5, amp=5, master=3, fp32=2, fp16=2, fsdp=5)
    if case["precision"] == "fsdp":
        case["_world"] = draw.choice([1, 2, 2, 2])
        case["reshard_after_forward"] = draw.maybe(0.7)
        case["shard_frozen"] = draw.maybe(0.7)
        if draw.maybe(0.25):
            case["cpu_offload"] = True
        if draw.maybe(0.3):
            case["ref_offload"] = True
    if draw.maybe(0.2):
        case["frozen_dtype"] = draw.choice(["float16", "float32", "bfloat16"])
    case["adam"] = draw.weighted(foreach=5, fused=3, loop=2)
    case["clip"] = draw.maybe(0.8)


def sizes(draw, case, deep):
    case["batch"] = draw.choice([2, 4, 4, 6, 8, 12]) if deep else draw.randrange(1, 13)
    case["micro_batch"] = draw.choice([n for n in range(1, case["batch"] + 1) if case["batch"] % n == 0])
    if draw.maybe(0.4):
        case["logprob_micro_batch"] = draw.randrange(1, case["batch"] + 1)
    case["prompt"] = draw.choice([33, 64, 100, 127, 256, 300, 511]) if deep else draw.randrange(3, 140)
    case["response"] = draw.choice([1, 17, 32, 65, 100]) if deep else draw.choice([1, 1, 2, 3, 7, 16, 33, 65])
    case["steps"] = draw.choice([1, 2, 2, 3]) if deep else draw.choice([1, 2, 2, 3, 4])
    case["epochs"] = draw.choice([1, 1, 1, 2, 3])


def memory(draw, case):
    if draw.maybe(0.35):
        case["grad_ckpt"] = True
        case["reentrant"] = draw.maybe(0.4)
    if draw.maybe(0.2):
        case["activation_offload"] = True
    if draw.maybe(0.2) and not case.get("cpu_offload") and not case.get("ref_offload"):
        case["ems"] = True
    case["empty_cache"] = draw.weighted(none=5, inference=2, training=2, all=2)
    case["empty_after_init"] = draw.maybe(0.7)
    if draw.maybe(0.16):
        case["_conf"] = draw.choice(["expandable_segments:True", "expandable_segments:True", "max_split_size_mb:32",
                                     "max_split_size_mb:128", "roundup_power2_divisions:4",
                                     "garbage_collection_threshold:0.6",
                                     "max_split_size_mb:64,roundup_power2_divisions:8"])


def adapters(draw, case):
    if not draw.maybe(0.22):
        return
    case["lora"] = draw.choice([4, 8, 16, 33])
    families = {case[role]["model_type"] for role in ("actor", "critic") if role in case}
    targets = {tuple(TARGETS.get(family, LLAMA_TARGETS)) for family in families}
    if draw.maybe(0.4) and len(targets) == 1 and "phi3" not in families:
        case["lora_targets"] = list(targets.pop())
    if case["algo"] == "ppo":
        # PEFT has a critic's inputs require no gradient: reentrant checkpointing would train nothing.
        case["reentrant"] = False


def draw_case(seed, kind, number):
    draw = Draw(f"{seed} {kind} {number}")
    deep = kind == "loop"
    case = {"name": f"{kind}-{seed}-{number:03d}"}
    if deep:
        case["actor"] = dict(DEEP[draw.choice(list(DEEP))])
    else:
        case["actor"] = small_model(draw)
    case["algo"] = draw.choice(["ppo", "grpo"])
    if case["algo"] == "ppo" and draw.maybe(0.3):
        case["critic"] = {**small_model(draw), "vocab_size": case["actor"]["vocab_size"]}
    if draw.maybe(0.2):
        case["use_ref"] = False
    if draw.maybe(0.2):
        case["use_reward"] = case["algo"] == "grpo"
    precision(draw, case)
    sizes(draw, case, deep)
    memory(draw, case)
    adapters(draw, case)
    case["attn"] = "eager" if draw.maybe(0.25) else "sdpa"
    case["dropout_off"] = not draw.maybe(0.5 if case["actor"]["model_type"] in DROPS else 0.1)
    case["pass_mask"] = draw.maybe(0.25)
    case["no_generate"] = draw.maybe(0.35)
    if case["precision"] == "fp16" and case["steps"] > 1:
        case["no_generate"] = True  # Adam's epsilon is 0 in fp16: weights are no numbers after a step
    case["token_logprob"] = draw.choice(["log_softmax", "cross_entropy", "logsumexp"])
    case["logits_fp32"] = draw.maybe(0.35)
    if not deep:
        # Python frames tell what made an allocation; long generations are traced without.
        case["trace"] = "frames" if case["no_generate"] or case["response"] <= 16 else True
    return case


def main(seed, streams, loops, folder):
    os.makedirs(folder, exist_ok=True)
    for kind, count in (("stream", int(streams)), ("loop", int(loops))):
        for number in range(count):
            case = draw_case(seed, kind, number)
            with open(os.path.join(folder, case["name"] + ".json"), "w", encoding="utf-8") as out:
                json.dump(case, out, indent=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
