#!/bin/bash
# DeepSpeed-Chat's second step on four RTX 3090: OPT-350M under ZeRO-2, whose two gradient buckets are larger than the model.
#   headroom check FILE --gpu rtx_3090
deepspeed --num_gpus=4 main.py \
   --data_path Dahoas/rm-static --data_split 2,4,4 \
   --model_name_or_path facebook/opt-350m --num_padding_at_beginning 1 \
   --per_device_train_batch_size 8 --per_device_eval_batch_size 8 --max_seq_len 512 \
   --gradient_accumulation_steps 2 --dropout 0.0 --zero_stage 2 \
   --deepspeed --output_dir ./output
