#!/bin/bash
# DeepSpeed-Chat's second step on eight A100: a reward model of Llama-2-7B under ZeRO-3, optimizer and weights on the host.
#   headroom check FILE --gpu a100_80gb
deepspeed --num_gpus 8 training/step2_reward_model_finetuning/main.py \
   --data_path Dahoas/rm-static --data_split 2,4,4 \
   --model_name_or_path meta-llama/Llama-2-7b-hf \
   --per_device_train_batch_size 4 --per_device_eval_batch_size 4 --max_seq_len 512 \
   --num_padding_at_beginning 0 \
   --gradient_checkpointing --zero_stage 3 --offload --dtype bf16 \
   --deepspeed --output_dir ./output
