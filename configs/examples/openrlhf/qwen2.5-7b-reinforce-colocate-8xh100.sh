#!/bin/bash
# REINFORCE++ with a baseline for Qwen2.5-7B on eight H100, all models and four engines on the same GPUs: engines and
# DeepSpeed's states sleep in turn. Packed micro-batches of a token budget; rewards come from a function.
#   headroom check FILE --gpu h100
N_SAMPLES=8
BUDGET=16384
python3 -m openrlhf.cli.train_ppo_ray \
   --ref_num_gpus_per_node 8 --actor_num_gpus_per_node 8 \
   --colocate_all_models --deepspeed_enable_sleep --vllm_enable_sleep \
   --vllm_num_engines 4 --vllm_tensor_parallel_size 2 --vllm_gpu_memory_utilization 0.6 --vllm_sync_backend nccl \
   --pretrain Qwen/Qwen2.5-7B-Instruct --remote_rm_url examples/python/reward_func.py \
   --advantage_estimator reinforce_baseline --init_kl_coef 1e-5 --use_kl_loss --kl_estimator k2 \
   --use_dynamic_batch --train_max_tokens_per_gpu $BUDGET --rollout_max_tokens_per_gpu $((BUDGET * 2)) \
   --train_batch_size 1024 --rollout_batch_size 128 --n_samples_per_prompt $N_SAMPLES \
   --prompt_max_len 1024 --generate_max_len 8192 \
   --zero_stage 3 --bf16 --packing_samples --gradient_checkpointing
