#!/bin/bash
# DeepSpeed-Chat's PPO step on eight H100: OPT-1.3B under ZeRO-2 in the hybrid engine, with a running mean of the actor.
#   headroom check FILE --gpu h100
deepspeed main.py \
   --data_path Dahoas/rm-static --data_split 2,4,4 \
   --actor_model_name_or_path facebook/opt-1.3b --critic_model_name_or_path facebook/opt-350m \
   --num_padding_at_beginning 1 \
   --per_device_generation_batch_size 4 --per_device_training_batch_size 4 \
   --gradient_accumulation_steps 2 --max_prompt_seq_len 256 --max_answer_seq_len 256 \
   --enable_hybrid_engine --enable_ema --actor_zero_stage 2 --critic_zero_stage 2 --actor_dropout 0.0 \
   --deepspeed --output_dir ./output
