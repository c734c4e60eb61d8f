#!/bin/bash
# DeepSpeed-Chat's first step on one A100: OPT-1.3B with adapters; tables, norms and biases train too.
#   headroom check FILE --gpu a100_40gb
OUTPUT=${1:-./output}
ZERO_STAGE=${2:-0}
mkdir -p $OUTPUT
deepspeed --num_gpus 1 main.py \
   --data_path Dahoas/rm-static --data_split 2,4,4 \
   --model_name_or_path facebook/opt-1.3b \
   --per_device_train_batch_size 4 --per_device_eval_batch_size 4 \
   --max_seq_len 512 --gradient_accumulation_steps 8 \
   --sft_only_data_path Dahoas/full-hh-rlhf \
   --lora_dim 128 --zero_stage $ZERO_STAGE \
   --deepspeed --output_dir $OUTPUT &> $OUTPUT/training.log
