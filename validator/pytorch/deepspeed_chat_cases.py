"""Writes the cases of deepspeed_chat_runs.py: deepspeed_chat_cases.py > CASES.json"""

import json

OPT = dict(model_type="opt", vocab_size=50272, hidden_size=2048, ffn_dim=8192, num_hidden_layers=24, num_attention_heads=32,
           max_position_embeddings=2048, word_embed_proj_dim=2048)
OPT_350M = dict(OPT, hidden_size=1024, ffn_dim=4096, num_attention_heads=16, word_embed_proj_dim=512,
                do_layer_norm_before=False)
LLAMA = dict(model_type="llama", vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
             num_attention_heads=32, num_key_value_heads=8, tie_word_embeddings=True, head_dim=64)
QWEN = dict(model_type="qwen2", vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
            num_attention_heads=14, num_key_value_heads=2, tie_word_embeddings=True)

PPO = ("--actor_model_name_or_path MODEL --critic_model_name_or_path CRITIC --per_device_generation_batch_size 4 "
       "--per_device_training_batch_size 4 --max_prompt_seq_len 256 --max_answer_seq_len 256 --deepspeed "
       "--actor_dropout 0.0 --critic_dropout 0.0")
ONE = ("--model_name_or_path MODEL --per_device_train_batch_size 4 --per_device_eval_batch_size 4 --max_seq_len 512 "
       "--deepspeed --dropout 0.0 --num_train_epochs 1")


def ppo(name, words, model=OPT, critic=OPT_350M, padding=1, **more):
    return dict(name=name, program="step3", words=f"{PPO} --num_padding_at_beginning {padding} {words}".split(), model=model,
                critic=critic, **more)


def one(name, program, words, model=OPT, **more):
    return dict(name=name, program=program, words=f"{ONE} {words}".split(), full_rows=True, model=model, **more)


CASES = [
    ppo("ppo-opt13-z2-bf16", "--actor_zero_stage 2 --critic_zero_stage 2 --dtype bf16"),
    ppo("ppo-opt13-z3-bf16", "--actor_zero_stage 3 --critic_zero_stage 3 --dtype bf16"),
    ppo("ppo-llama1b-z2-ckpt", "--actor_zero_stage 2 --critic_zero_stage 2 --dtype bf16 --actor_gradient_checkpointing "
        "--critic_gradient_checkpointing", LLAMA, LLAMA, 0),
    ppo("ppo-llama1b-z3-ckpt", "--actor_zero_stage 3 --critic_zero_stage 3 --dtype bf16 --actor_gradient_checkpointing "
        "--critic_gradient_checkpointing", LLAMA, LLAMA, 0),
    ppo("ppo-opt13-z2-ema-fp32-loss", "--actor_zero_stage 2 --critic_zero_stage 2 --dtype bf16 --enable_ema --compute_fp32_loss"),
    ppo("ppo-opt13-z3-offload-ref", "--actor_zero_stage 3 --critic_zero_stage 3 --dtype bf16 --offload_reference_model"),
    one("sft-opt13-z2", "step1", "--zero_stage 2 --dtype bf16 --gradient_checkpointing"),
    one("sft-opt13-z3", "step1", "--zero_stage 3 --dtype bf16"),
    one("sft-opt13-z0-lora", "step1", "--zero_stage 0 --dtype bf16 --lora_dim 128 --gradient_accumulation_steps 2"),
    one("sft-q05-z2-offload-fp32-loss", "step1", "--zero_stage 2 --dtype bf16 --offload --compute_fp32_loss", QWEN),
    one("rm-opt350-z2", "step2", "--zero_stage 2 --dtype bf16 --num_padding_at_beginning 1", OPT_350M),
    one("rm-llama1b-z3-ckpt", "step2", "--zero_stage 3 --dtype bf16 --num_padding_at_beginning 0 --gradient_checkpointing", LLAMA),
    one("dpo-opt13-z2", "step2_dpo", "--zero_stage 2 --dtype bf16 --gradient_checkpointing"),
    one("dpo-llama1b-z3", "step2_dpo", "--zero_stage 3 --dtype bf16", LLAMA),
]

if __name__ == "__main__":
    print(json.dumps(CASES, indent=1))
