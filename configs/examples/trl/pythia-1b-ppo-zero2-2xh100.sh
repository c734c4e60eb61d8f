#!/bin/bash
# PPO: policy and value model trained, reference and reward model whole on every GPU.
accelerate launch --use_deepspeed --zero_stage 2 --num_processes 2 --mixed_precision bf16 \
  examples/scripts/ppo/ppo.py \
  --dataset_name trl-internal-testing/descriptiveness-sentiment-trl-style \
  --output_dir pythia-1b-ppo \
  --model_name_or_path EleutherAI/pythia-1b-deduped \
  --sft_model_path EleutherAI/pythia-1b-deduped \
  --reward_model_path EleutherAI/pythia-1b-deduped \
  --per_device_train_batch_size 4 --gradient_accumulation_steps 4 \
  --local_rollout_forward_batch_size 4 --num_ppo_epochs 1 --num_mini_batches 1 \
  --response_length 256 --save_strategy no
