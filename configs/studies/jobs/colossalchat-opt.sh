#!/bin/bash
# Coati's PPO with OPT on four cards: an actor and its initial model of 1.3B, a critic and a reward model of 350M.
torchrun --standalone --nproc_per_node=4 train_prompts.py \
    --prompt_dataset prompts.json \
    --pretrain_dataset texts.json \
    --strategy colossalai_zero2 \
    --model opt --pretrain facebook/opt-1.3b \
    --rm_model opt --rm_pretrain facebook/opt-350m \
    --num_collect_steps 2 --num_update_steps 1 \
    --experience_batch_size 2 --train_batch_size 2 --ptx_batch_size 1 \
    --max_input_len 256 --max_seq_len 512
