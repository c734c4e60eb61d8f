#!/bin/bash
# DeepSpeed-Chat's PPO step on eight A100: Llama-2-7B in all four models under ZeRO-3, the reference on the host; sixteen
# prompts a GPU are generated in two batches and trained on four at once.
#   headroom check FILE --gpu a100_80gb
deepspeed --num_gpus 8 training/step3_rlhf_finetuning/main.py \
   --data_path Dahoas/rm-static --data_split 2,4,4 \
   --actor_model_name_or_path meta-llama/Llama-2-7b-hf --critic_model_name_or_path meta-llama/Llama-2-7b-hf \
   --num_padding_at_beginning 0 --dtype bf16 \
   --per_device_generation_batch_size 8 --per_device_training_batch_size 4 --generation_batches 2 \
   --max_prompt_seq_len 256 --max_answer_seq_len 256 \
   --enable_hybrid_engine --actor_zero_stage 3 --critic_zero_stage 3 --offload --offload_reference_model \
   --actor_gradient_checkpointing --critic_gradient_checkpointing --actor_dropout 0.0 \
   --deepspeed --output_dir ./output
