#!/bin/bash
# PPO of Llama 3.1 8B with a critic and a reward model, each pair on a node of its own, in the flags of 0.9.
ray job submit --address="http://127.0.0.1:8265" \
  --runtime-env-json='{"working_dir": "/workspace"}' \
  -- python3 -m openrlhf.cli.train_ppo_ray \
  --pretrain meta-llama/Llama-3.1-8B-Instruct \
  --reward_pretrain meta-llama/Llama-3.1-8B-Instruct \
  --ref_num_nodes 1 --ref_num_gpus_per_node 8 \
  --reward_num_nodes 1 --reward_num_gpus_per_node 8 \
  --critic_num_nodes 1 --critic_num_gpus_per_node 8 \
  --actor_num_nodes 1 --actor_num_gpus_per_node 8 \
  --colocate_actor_ref --colocate_critic_reward \
  --vllm_num_engines 4 --vllm_tensor_parallel_size 2 --vllm_gpu_memory_utilization 0.9 \
  --zero_stage 3 --param_dtype bf16 --adam_offload \
  --gradient_checkpointing --packing_samples \
  --micro_train_batch_size 2 --train_batch_size 128 \
  --micro_rollout_batch_size 4 --rollout_batch_size 256 \
  --n_samples_per_prompt 1 --max_epochs 1 \
  --prompt_max_len 1024 --generate_max_len 1024 \
  --init_kl_coef 0.01 --advantage_estimator gae \
  --save_steps 50 \
  --actor_learning_rate 5e-7 --critic_learning_rate 9e-6
