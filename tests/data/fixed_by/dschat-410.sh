#!/bin/bash
# DeepSpeed-Chat's PPO step on eight A100, OPT-13B: twice the sequences a GPU that its script has.
ACTOR_MODEL_PATH=${1:-facebook/opt-13b}
CRITIC_MODEL_PATH=${2:-facebook/opt-350m}
ACTOR_ZERO_STAGE=${3:-3}
CRITIC_ZERO_STAGE=${4:-3}
OUTPUT=./output
mkdir -p $OUTPUT
deepspeed --num_gpus 8 training/step3_rlhf_finetuning/main.py \
   --data_path Dahoas/rm-static --data_split 2,4,4 \
   --actor_model_name_or_path $ACTOR_MODEL_PATH --critic_model_name_or_path $CRITIC_MODEL_PATH \
   --num_padding_at_beginning 1 \
   --per_device_generation_batch_size 32 --per_device_training_batch_size 32 \
   --generation_batches 1 --ppo_epochs 1 \
   --max_prompt_seq_len 256 --max_answer_seq_len 256 \
   --enable_hybrid_engine --inference_tp_size 2 --release_inference_cache \
   --actor_zero_stage $ACTOR_ZERO_STAGE --critic_zero_stage $CRITIC_ZERO_STAGE \
   --actor_gradient_checkpointing --critic_gradient_checkpointing \
   --actor_dropout 0.0 --actor_lora_dim 128 --actor_lora_module_name decoder.layers. \
   --deepspeed --output_dir $OUTPUT &> $OUTPUT/training.log
