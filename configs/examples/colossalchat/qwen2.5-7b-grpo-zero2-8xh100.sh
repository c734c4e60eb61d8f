#!/bin/bash
# ColossalChat's GRPO of Qwen2.5-7B on eight H100 with rules as rewards: LowLevelZero in bf16, the reference on the host
# while the actor trains.
torchrun --nproc_per_node 8 train_grpo.py \
    --pretrain Qwen/Qwen2.5-7B \
    --prompt_dataset prompts/part-00000 \
    --conversation_template_config template.json \
    --plugin zero2 --mixed_precision bf16 --grad_checkpoint --use_flash_attn \
    --reward_functions gsm8k_reward_fn math_competition_reward_fn \
    --num_collect_steps 1 --num_update_steps 1 --num_generations 8 --inference_batch_size 8 \
    --logits_forward_batch_size 1 \
    --experience_batch_size 2 --train_batch_size 2 --accumulation_steps 4 \
    --max_length 1024 --max_seq_len 768
