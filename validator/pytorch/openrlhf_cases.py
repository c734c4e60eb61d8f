"""Writes the cases of openrlhf_actors.py: openrlhf_cases.py > CASES.json"""

import json

QWEN = dict(model_type="qwen2", vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
            num_attention_heads=14, num_key_value_heads=2, tie_word_embeddings=True)
LLAMA = dict(model_type="llama", vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
             num_attention_heads=32, num_key_value_heads=8, tie_word_embeddings=True, head_dim=64)
SMALL = dict(QWEN, num_hidden_layers=2, vocab_size=32000)

ONE_GPU = ("--actor.num_gpus_per_node 1 --ref.num_gpus_per_node 1 --critic.num_gpus_per_node 1 --reward.num_gpus_per_node 1 "
           "--vllm.num_engines 1 --vllm.tensor_parallel_size 1 --train.colocate_all --vllm.enable_sleep "
           "--actor.model_name_or_path MODEL")
GRPO = f"{ONE_GPU} --reward.remote_url reward.py --algo.advantage.estimator group_norm"
PPO = f"{ONE_GPU} --reward.model_name_or_path MODEL --critic.model_name_or_path MODEL --algo.advantage.estimator gae"
BATCH = ("--rollout.batch_size 2 --rollout.n_samples_per_prompt 8 --train.batch_size 16 --train.micro_batch_size 4 "
         "--rollout.micro_batch_size 4 --rollout.max_new_tokens 512 --data.max_len 1024")
SHORT = ("--rollout.batch_size 1 --rollout.n_samples_per_prompt 4 --train.batch_size 4 --train.micro_batch_size 2 "
         "--rollout.micro_batch_size 2 --rollout.max_new_tokens 64 --data.max_len 128")
CKPT, SLEEP, PACKED = "--actor.gradient_checkpointing_enable", "--ds.enable_sleep", "--ds.packing_samples"
Z = {stage: f"--ds.zero_stage {stage}" for stage in range(4)}
LORA = "--ds.lora.rank 16 --ds.lora.alpha 32"
ONE = "--model.model_name_or_path MODEL --train.batch_size 8 --train.micro_batch_size 4 --data.max_len 1024"
FEW = "--model.model_name_or_path MODEL --train.batch_size 4 --train.micro_batch_size 2 --data.max_len 128"
MCKPT = "--model.gradient_checkpointing_enable"


def case(name, program, words, model=QWEN, **more):
    return dict(name=name, program=program, words=words.split(), model=model, **more)


def rl(name, words, model=QWEN, process="actor", **more):
    return case(name, "train_ppo_ray", words, model, process=process, **more)


CASES = [
    rl("grpo-small-z2-traced", f"{GRPO} {SHORT} {Z[2]} {SLEEP} {CKPT}", SMALL, snapshot=True),
    case("sft-small-z2-traced", "train_sft", f"{FEW} {Z[2]} {PACKED}", SMALL, snapshot=True),
    rl("grpo-small-z3-traced", f"{GRPO} {SHORT} {Z[3]} {SLEEP} {CKPT} {PACKED}", SMALL, snapshot=True),
    case("dpo-small-z3-traced", "train_dpo", f"{FEW} {Z[3]}", SMALL, snapshot=True),
    rl("ppo-small-critic-z2-traced", f"{PPO} {SHORT} {Z[2]} {SLEEP} {CKPT}", SMALL, process="critic", snapshot=True),
    rl("grpo-q05-z2", f"{GRPO} {BATCH} {Z[2]} {SLEEP} {CKPT}"),
    rl("grpo-q05-z2-packed", f"{GRPO} {BATCH} {Z[2]} {SLEEP} {CKPT} {PACKED}"),
    rl("grpo-q05-z2-awake-nockpt", f"{GRPO} {BATCH} {Z[2]} {PACKED}"),
    rl("grpo-q05-z2-dynamic", f"{GRPO} {BATCH} {Z[2]} {SLEEP} {CKPT} {PACKED} --train.dynamic_batch_enable "
       "--train.max_tokens_per_gpu 4096"),
    rl("grpo-q05-z2-kl-entropy", f"{GRPO} {BATCH} {Z[2]} {SLEEP} {CKPT} {PACKED} --algo.kl.use_loss --algo.kl.estimator k3 "
       "--actor.entropy_coef 0.01"),
    rl("grpo-q05-z2-adam-offload", f"{GRPO} {BATCH} {Z[2]} {CKPT} {PACKED} --ds.adam_offload"),
    rl("grpo-q05-z2-lora", f"{GRPO} {BATCH} {Z[2]} {SLEEP} {CKPT} {PACKED} {LORA}"),
    rl("grpo-q05-z3", f"{GRPO} {BATCH} {Z[3]} {SLEEP} {CKPT} {PACKED}"),
    rl("grpo-q05-z3-padded", f"{GRPO} {BATCH} {Z[3]} {SLEEP} {CKPT}"),
    rl("grpo-ll1b-z1-awake", f"{GRPO} {BATCH} {Z[1]} {CKPT} {PACKED}", LLAMA),
    rl("grpo-ll1b-z3-epochs", f"{GRPO} {BATCH} {Z[3]} {SLEEP} {CKPT} {PACKED} --train.max_epochs 2", LLAMA),
    rl("ppo-q05-actor-z3", f"{PPO} {BATCH} {Z[3]} {SLEEP} {CKPT} {PACKED}"),
    rl("ppo-q05-critic-z2", f"{PPO} {BATCH} {Z[2]} {SLEEP} {CKPT} {PACKED}", process="critic"),
    rl("ppo-q05-critic-z3", f"{PPO} {BATCH} {Z[3]} {SLEEP} {CKPT} {PACKED}", process="critic"),
    rl("ppo-q05-ref-z2", f"{PPO} {BATCH} {Z[2]} {PACKED}", process="ref"),
    rl("ppo-q05-ref-z3-offload", f"{PPO} {BATCH} {Z[3]} {PACKED} --ref.offload", process="ref"),
    rl("ppo-q05-reward-z3", f"{PPO} {BATCH} {Z[3]} {PACKED}", process="reward"),
    case("sft-q05-z2", "train_sft", f"{ONE} {Z[2]} {MCKPT} {PACKED}"),
    case("sft-q05-z3", "train_sft", f"{ONE} {Z[3]} {MCKPT} {PACKED}"),
    case("sft-q05-z2-padded-nockpt", "train_sft", f"{ONE} {Z[2]}"),
    case("sft-q05-z2-lora", "train_sft", f"{ONE} {Z[2]} {MCKPT} {PACKED} {LORA}"),
    case("sft-ll1b-z2-offload", "train_sft", f"{ONE} {Z[2]} {MCKPT} {PACKED} --ds.adam_offload", LLAMA),
    case("sft-ll1b-z3-lora", "train_sft", f"{ONE} {Z[3]} {MCKPT} {PACKED} {LORA}", LLAMA),
    case("dpo-q05-z2", "train_dpo", f"{ONE} {Z[2]} {MCKPT} {PACKED}"),
    case("dpo-q05-z3-offload", "train_dpo", f"{ONE} {Z[3]} {MCKPT} {PACKED} --ref.offload"),
    case("dpo-q05-z2-padded", "train_dpo", f"{ONE} {Z[2]} {MCKPT}"),
    case("rm-q05-z2", "train_rm", f"{ONE} {Z[2]} {MCKPT} {PACKED}"),
    case("rm-q05-z3", "train_rm", f"{ONE} {Z[3]} {MCKPT}"),
]

if __name__ == "__main__":
    print(json.dumps(CASES, indent=1))
