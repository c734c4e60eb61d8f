#!/bin/bash
# Fine-tuning of Llama-2-7B on four A100: LowLevelZero with the optimizer on the host.
#   headroom check FILE --gpu a100_80gb
torchrun --nproc_per_node 4 train_sft.py \
    --pretrain meta-llama/Llama-2-7b-hf \
    --dataset data/part-00000 data/part-00001 \
    --plugin zero2_cpu --mixed_precision bf16 --grad_checkpoint --use_flash_attn \
    --batch_size 4 --accumulation_steps 2 --max_len 2048
