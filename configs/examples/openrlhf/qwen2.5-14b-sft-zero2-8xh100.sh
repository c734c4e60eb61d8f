#!/bin/bash
# SFT of Qwen2.5-14B on eight H100 with OpenRLHF: packed sequences under ZeRO-2, Adam on the host.
#   headroom check FILE --gpu h100
deepspeed --module openrlhf.cli.train_sft \
   --pretrain Qwen/Qwen2.5-14B --dataset Open-Orca/OpenOrca --input_key question --output_key response \
   --micro_train_batch_size 2 --train_batch_size 256 --max_len 4096 --max_epochs 1 \
   --zero_stage 2 --bf16 --adam_offload --flash_attn --packing_samples --gradient_checkpointing \
   --learning_rate 5e-6 --save_path ./checkpoint
