#!/bin/bash
# Supervised fine-tuning of Qwen2.5-1.5B under ZeRO-2 on two GPUs.
MICRO=${MICRO:-4}
deepspeed --num_gpus 2 --module openrlhf.cli.train_sft \
  --model.model_name_or_path Qwen/Qwen2.5-1.5B \
  --data.max_len 2048 --data.dataset my/instructions \
  --train.batch_size 64 --train.micro_batch_size $MICRO --train.max_epochs 1 \
  --ds.zero_stage 2 \
  --model.gradient_checkpointing_enable \
  --adam.lr 5e-6
