#!/bin/bash
# REINFORCE++ with a baseline for Llama-3.1-70B on eight nodes of eight H100, all models and eight engines on the same
# GPUs: engines and DeepSpeed's states sleep in turn.
#   headroom check FILE --gpu h100
python3 -m openrlhf.cli.train_ppo_ray \
   --ref_num_nodes 8 --ref_num_gpus_per_node 8 --actor_num_nodes 8 --actor_num_gpus_per_node 8 \
   --colocate_all_models --deepspeed_enable_sleep --vllm_enable_sleep \
   --vllm_num_engines 8 --vllm_tensor_parallel_size 8 --vllm_gpu_memory_utilization 0.6 --vllm_sync_backend nccl \
   --pretrain meta-llama/Llama-3.1-70B-Instruct --remote_rm_url examples/python/reward_func.py \
   --advantage_estimator reinforce_baseline --init_kl_coef 1e-5 --use_kl_loss --kl_estimator k2 \
   --micro_train_batch_size 1 --train_batch_size 512 \
   --micro_rollout_batch_size 2 --rollout_batch_size 128 --n_samples_per_prompt 8 \
   --prompt_max_len 1024 --generate_max_len 3072 \
   --zero_stage 3 --bf16 --packing_samples \
   --gradient_checkpointing --gradient_checkpointing_use_reentrant
