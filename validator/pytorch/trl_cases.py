"""Writes the cases of trl_trainers.py: trl_cases.py > CASES.json"""

import json

QWEN = dict(model_type="qwen2", vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
            num_attention_heads=14, num_key_value_heads=2, tie_word_embeddings=True)
LLAMA = dict(model_type="llama", vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
             num_attention_heads=32, num_key_value_heads=8, tie_word_embeddings=True, head_dim=64)
SMALL = dict(QWEN, num_hidden_layers=2, vocab_size=32000)


def case(name, trainer, words, model=QWEN, prompt=256, response=256, **more):
    return dict(name=name, trainer=trainer, words=words.split(), model=model, prompt=prompt, response=response, **more)


PAIRS = "--per_device_train_batch_size 4 --max_length 512 --max_steps 3"
SHORT = "--per_device_train_batch_size 4 --max_length 128 --max_steps 3"
LORA = "--use_peft true --lora_r 16 --lora_target_modules all-linear"
GRPO = "--per_device_train_batch_size 8 --num_generations 8 --max_completion_length 256 --max_steps 2"
PPO = ("--per_device_train_batch_size 4 --gradient_accumulation_steps 2 --local_rollout_forward_batch_size 8 "
       "--num_ppo_epochs 1 --num_mini_batches 1 --num_sample_generations 0 --total_episodes 16")

CASES = [
    case("ppo-q05", "ppo", f"{PPO} --response_length 256", rows=32),
    case("ppo-q05-bf16w", "ppo", f"{PPO} --response_length 128 --dtype bfloat16 --gradient_checkpointing true", response=128,
         rows=32),
    case("dpo-q05", "dpo", PAIRS),
    case("dpo-q05-nockpt", "dpo", f"{PAIRS} --gradient_checkpointing false"),
    case("dpo-q05-lora", "dpo", f"{PAIRS} {LORA}"),
    case("dpo-ll1b-bf16w-acc2", "dpo", f"{PAIRS} --dtype bfloat16 --gradient_accumulation_steps 2", LLAMA),
    case("dpo-q05-precomputed", "dpo", f"{PAIRS} --precompute_ref_log_probs true"),
    case("dpo-small-traced", "dpo", SHORT, SMALL, 64, 64, snapshot=True),
    case("dpo-small-lora-traced", "dpo", f"{SHORT} {LORA}", SMALL, 64, 64, snapshot=True),
    case("sft-q05", "sft", PAIRS),
    case("sft-q05-nll", "sft", f"{PAIRS} --loss_type nll"),
    case("sft-q05-lora", "sft", f"{PAIRS} {LORA}"),
    case("sft-ll1b-bf16w-acc2", "sft", f"{PAIRS} --dtype bfloat16 --gradient_accumulation_steps 2", LLAMA),
    case("sft-small-traced", "sft", SHORT, SMALL, 64, 64, snapshot=True),
    case("sft-small-lora-traced", "sft", f"{SHORT} {LORA}", SMALL, 64, 64, snapshot=True),
    case("sft-small-bf16w-traced", "sft", f"{SHORT} --dtype bfloat16", SMALL, 64, 64, snapshot=True),
    case("sft-small-nll-traced", "sft", f"{SHORT} --loss_type nll", SMALL, 64, 64, snapshot=True),
    case("reward-q05", "reward", PAIRS),
    case("reward-q05-lora", "reward", f"{PAIRS} {LORA} --lora_task_type SEQ_CLS"),
    case("reward-ll1b-bf16w-nockpt", "reward", f"{PAIRS} --dtype bfloat16 --gradient_checkpointing false", LLAMA),
    case("reward-small-traced", "reward", SHORT, SMALL, 64, 64, snapshot=True),
    case("grpo-q05-iter2", "grpo",
         "--per_device_train_batch_size 4 --num_generations 8 --max_completion_length 256 --max_steps 4 --num_iterations 2 "
         "--gradient_accumulation_steps 2", rows=32),
    case("grpo-ll1b-bf16w-beta-acc2", "grpo", f"{GRPO} --dtype bfloat16 --beta 0.04 --gradient_accumulation_steps 2", LLAMA,
         rows=32),
    case("grpo-q05-bf16w", "grpo", f"{GRPO} --dtype bfloat16", rows=32),
]

if __name__ == "__main__":
    print(json.dumps(CASES, indent=1))
