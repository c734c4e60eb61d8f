#!/bin/bash
# GRPO of Qwen2.5-7B on eight H100: actor, reference and engines take turns on the same GPUs, the optimizer's states
# sleep on the host between updates.
set -x

ACTOR=Qwen/Qwen2.5-7B-Instruct
LENGTH=3072

ENGINE=(
  --vllm.num_engines 8
  --vllm.tensor_parallel_size 1
  --vllm.gpu_memory_utilization 0.6
  --vllm.enable_sleep
)

python3 -m openrlhf.cli.train_ppo_ray \
  --actor.model_name_or_path $ACTOR \
  --actor.num_nodes 1 --actor.num_gpus_per_node 8 \
  --ref.num_nodes 1 --ref.num_gpus_per_node 8 \
  --reward.remote_url /rewards/math.py \
  --train.colocate_all \
  "${ENGINE[@]}" \
  --ds.zero_stage 3 \
  --ds.enable_sleep \
  --ds.packing_samples \
  --actor.gradient_checkpointing_enable \
  --algo.advantage.estimator group_norm \
  --algo.kl.use_loss --algo.kl.init_coef 1e-3 \
  --train.dynamic_batch_enable --train.max_tokens_per_gpu 16384 \
  --train.batch_size 128 \
  --rollout.batch_size 128 --rollout.n_samples_per_prompt 8 \
  --data.max_len $LENGTH --rollout.max_new_tokens 2048 \
  --adam.lr 5e-7
