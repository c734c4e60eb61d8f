"""Writes the cases of nemo_rl_worker.py: nemo_rl_cases.py > CASES.json"""

import copy
import json
import random

from trl_cases import LLAMA, QWEN, SMALL

POLICY = dict(
    model_name="", tokenizer=dict(name=""), hf_config_overrides={}, train_global_batch_size=16, train_micro_batch_size=2,
    logprob_batch_size=2, max_total_sequence_length=1024, precision="bfloat16", logprob_chunk_size=None,
    offload_optimizer_for_logprob=False, refit_buffer_size_gb=2, max_grad_norm=1.0, make_sequence_length_divisible_by=1,
    dtensor_cfg=dict(_v2=False, enabled=True, cpu_offload=False, sequence_parallel=False, activation_checkpointing=False,
                     tensor_parallel_size=1, context_parallel_size=1, custom_parallel_plan=None),
    megatron_cfg=dict(enabled=False),
    dynamic_batching=dict(enabled=False, train_mb_tokens=2048, logprob_mb_tokens=2048, sequence_length_round=64),
    sequence_packing=dict(enabled=False, train_mb_tokens=2048, logprob_mb_tokens=2048, algorithm="modified_first_fit_decreasing"),
    optimizer=dict(name="torch.optim.AdamW", kwargs=dict(lr=5e-6, weight_decay=0.01, betas=[0.9, 0.999], eps=1e-8,
                                                         foreach=False, fused=False)),
    scheduler=[dict(name="torch.optim.lr_scheduler.ConstantLR", kwargs=dict(factor=1.0, total_iters=10000000000)),
               dict(milestones=[])],
    generation=dict(backend="vllm", max_new_tokens=512, temperature=1.0, top_p=1.0, top_k=None,
                    vllm_cfg=dict(precision="bfloat16", tensor_parallel_size=1, pipeline_parallel_size=1,
                                  gpu_memory_utilization=0.4, max_model_len=1024, enforce_eager=False, async_engine=False),
                    colocated=dict(enabled=True, resources=dict(gpus_per_node=None, num_nodes=None))))
CONFIG = dict(
    grpo=dict(num_prompts_per_step=2, num_generations_per_prompt=8, max_num_steps=2),
    loss_fn=dict(reference_policy_kl_penalty=0.01, reference_policy_kl_type="k3", kl_input_clamp_value=20.0,
                 kl_output_clamp_value=10.0, ratio_clip_min=0.2, ratio_clip_max=0.2, ratio_clip_c=None,
                 use_on_policy_kl_approximation=False, use_importance_sampling_correction=False,
                 truncated_importance_sampling_ratio=None, sequence_level_importance_ratios=False, token_level_loss=True,
                 force_on_policy_ratio=False),
    policy=POLICY, data=dict(max_input_seq_length=512), cluster=dict(gpus_per_node=2, num_nodes=1))


def case(name, model=QWEN, changes=(), **more):
    """`changes`: dotted keys of the configuration with their values."""
    config = copy.deepcopy(CONFIG)
    for key, value in dict(changes).items():
        at = config
        *path, last = key.split(".")
        for part in path:
            at = at[part]
        at[last] = value
    return dict(name=name, config=config, model=model, **more)


def ragged(count, longest):
    random.seed(3)
    return [random.randrange(longest // 4, longest + 1) for _ in range(count - 1)] + [longest]


SHORT = {"policy.max_total_sequence_length": 256, "policy.generation.max_new_tokens": 128, "data.max_input_seq_length": 128}
D = "policy.dtensor_cfg."
CASES = [
    case("q05"),
    case("q05-ckpt", changes={D + "activation_checkpointing": True}),
    case("q05-tp2", changes={D + "tensor_parallel_size": 2}),
    case("small-traced", SMALL, SHORT, snapshot=True),
    case("small-tp2-traced", SMALL, {**SHORT, D + "tensor_parallel_size": 2}, snapshot=True),
    case("small-ckpt-traced", SMALL, {**SHORT, D + "activation_checkpointing": True}, snapshot=True),
    case("small-chunk-traced", SMALL, {**SHORT, "policy.logprob_chunk_size": 64}, snapshot=True),
    case("q05-dynamic", changes={"policy.dynamic_batching.enabled": True}, lengths=ragged(16, 1024)),
    case("q05-packed", changes={"policy.sequence_packing.enabled": True}, lengths=ragged(16, 1024)),
    case("q05-offload", changes={D + "cpu_offload": True}),
    case("q05-chunk", changes={"policy.logprob_chunk_size": 256}),
    case("ll1b-ckpt", LLAMA, {D + "activation_checkpointing": True}),
    case("ll1b-tp2-two-updates", LLAMA, {D + "tensor_parallel_size": 2, "policy.train_global_batch_size": 8}),
    case("q05-fp32", changes={"policy.precision": "float32", "policy.train_micro_batch_size": 1}),
]

def on_one(entry):
    """The same on one GPU, as far as nothing is split between ranks."""
    entry = copy.deepcopy(entry)
    entry["config"]["cluster"]["gpus_per_node"] = 1
    return dict(entry, name=entry["name"] + "-1gpu")


CASES += [on_one(c) for c in CASES if c["config"]["policy"]["dtensor_cfg"]["tensor_parallel_size"] == 1]

if __name__ == "__main__":
    import sys

    # An argument: how many GPUs there are.
    print(json.dumps([c for c in CASES if len(sys.argv) < 2 or c["config"]["cluster"]["gpus_per_node"] == int(sys.argv[1])],
                     indent=1))
