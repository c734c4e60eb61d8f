#!/bin/bash
# Coati's reward model of BLOOM-560m on two A10.
#   headroom check FILE --gpu a10
torchrun --standalone --nproc_per_node=2 train_reward_model.py \
    --model bloom --pretrain bigscience/bloom-560m \
    --strategy colossalai_zero2 \
    --loss_fn log_sig --dataset Anthropic/hh-rlhf \
    --batch_size 2 --max_len 512
