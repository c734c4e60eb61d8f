#!/bin/bash
# DPO of Llama 3.2 3B: the policy under ZeRO-3, the reference's weights on the host.
read -r -d '' training_commands <<EOF
openrlhf.cli.train_dpo \
   --model.model_name_or_path meta-llama/Llama-3.2-3B-Instruct \
   --ref.model_name_or_path meta-llama/Llama-3.2-3B-Instruct \
   --ref.offload \
   --data.max_len 4096 \
   --train.batch_size 64 \
   --train.micro_batch_size 1 \
   --ds.zero_stage 3 \
   --model.gradient_checkpointing_enable \
   --adam.lr 5e-7
EOF
deepspeed --num_gpus 4 --module $training_commands
