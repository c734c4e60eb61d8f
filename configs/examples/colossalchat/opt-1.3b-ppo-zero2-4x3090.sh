#!/bin/bash
# Coati's PPO (ColossalAI up to 0.3.6) of OPT-1.3B with an OPT-350M critic on four RTX 3090: LowLevelZero, whose gradients
# are reduced in one go at the end of each backward. Models that are only evaluated wait on the host while others train.
#   headroom simulate FILE --gpu rtx_3090
torchrun --standalone --nproc_per_node=4 train_prompts.py \
    --prompt_dataset prompts.json \
    --pretrain_dataset texts.json \
    --strategy colossalai_zero2 \
    --model opt --pretrain facebook/opt-1.3b \
    --rm_model opt --rm_pretrain facebook/opt-350m \
    --num_episodes 10 --num_collect_steps 4 --num_update_steps 1 \
    --experience_batch_size 8 --train_batch_size 8 --ptx_batch_size 1 \
    --max_input_len 96 --max_seq_len 128
