#!/bin/bash
# Coati's PPO with GPT-2 on four cards: an actor and its initial model of 774M, a critic and a reward model of 355M.
torchrun --standalone --nproc_per_node=4 train_prompts.py \
    --prompt_dataset prompts.json \
    --pretrain_dataset texts.json \
    --strategy colossalai_zero2 \
    --model gpt2 --pretrain gpt2-large \
    --rm_model gpt2 --rm_pretrain gpt2-medium \
    --num_collect_steps 2 --num_update_steps 1 \
    --experience_batch_size 2 --train_batch_size 2 --ptx_batch_size 1 \
    --max_input_len 256 --max_seq_len 512
