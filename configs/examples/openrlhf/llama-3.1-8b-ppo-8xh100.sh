#!/bin/bash
# PPO of Llama-3.1-8B with OpenRLHF's flags until 0.9, submitted to Ray: actor and reference share four H100, critic and
# reward model the other four with nothing asleep; two vLLM engines have four GPUs more.
#   headroom check FILE --gpu h100
set -x
ray job submit --address="http://127.0.0.1:8265" \
   --runtime-env-json='{"working_dir": "/openrlhf"}' \
   -- python3 -m openrlhf.cli.train_ppo_ray \
   --ref_num_nodes 1 --ref_num_gpus_per_node 4 \
   --actor_num_nodes 1 --actor_num_gpus_per_node 4 \
   --reward_num_nodes 1 --reward_num_gpus_per_node 4 \
   --critic_num_nodes 1 --critic_num_gpus_per_node 4 \
   --colocate_actor_ref --colocate_critic_reward \
   --vllm_num_engines 2 --vllm_tensor_parallel_size 2 --vllm_gpu_memory_utilization 0.9 \
   --pretrain meta-llama/Llama-3.1-8B --reward_pretrain meta-llama/Llama-3.1-8B \
   --micro_train_batch_size 4 --train_batch_size 64 \
   --micro_rollout_batch_size 8 --rollout_batch_size 256 \
   --prompt_max_len 1024 --generate_max_len 1024 --max_epochs 1 \
   --zero_stage 3 --bf16 --adam_offload --packing_samples --gradient_checkpointing \
   --actor_learning_rate 5e-7 --critic_learning_rate 9e-6 --init_kl_coef 0.01 \
   --normalize_reward --save_path ./checkpoint
