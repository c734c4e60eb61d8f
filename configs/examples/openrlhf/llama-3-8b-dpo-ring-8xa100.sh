#!/bin/bash
# DPO of Llama-3-8B on eight A100 with OpenRLHF: packed sequences whose attention goes around rings of four GPUs, adapters
# on the attention's projections, weights under ZeRO-3.
#   headroom check FILE --gpu a100_80gb
deepspeed --num_gpus 8 --module openrlhf.cli.train_dpo \
   --pretrain meta-llama/Meta-Llama-3-8B --ref_pretrain meta-llama/Meta-Llama-3-8B \
   --dataset OpenRLHF/preference_dataset_mixture2_and_safe_pku --apply_chat_template \
   --chosen_key chosen --rejected_key rejected \
   --micro_train_batch_size 1 --train_batch_size 64 --max_len 8192 --max_epochs 1 \
   --packing_samples --ring_attn_size 4 --ring_head_stride 2 \
   --lora_rank 64 --lora_alpha 64 --target_modules q_proj k_proj v_proj o_proj \
   --zero_stage 3 --bf16 --flash_attn --gradient_checkpointing \
   --learning_rate 5e-7 --beta 0.1 --save_path ./checkpoint
