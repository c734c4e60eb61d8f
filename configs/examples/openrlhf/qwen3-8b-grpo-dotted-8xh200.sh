#!/bin/bash
# GRPO of Qwen3-8B on eight H200 with OpenRLHF's flags since 0.10: ZeRO-3 with the optimizer on the GPUs, asleep while
# eight engines generate; packed micro-batches of a token budget.
#   headroom check FILE --gpu h200
python3 -m openrlhf.cli.train_ppo_ray \
   --actor.model_name_or_path Qwen/Qwen3-8B --actor.num_gpus_per_node 8 --ref.num_gpus_per_node 8 \
   --reward.remote_url examples/python/reward_func.py \
   --train.colocate_all --vllm.enable_sleep --ds.enable_sleep \
   --vllm.num_engines 8 --vllm.tensor_parallel_size 1 --vllm.gpu_memory_utilization 0.6 \
   --ds.zero_stage 3 --ds.packing_samples --actor.gradient_checkpointing_enable \
   --algo.advantage.estimator group_norm --algo.kl.init_coef 0.001 --algo.kl.use_loss \
   --train.dynamic_batch_enable --train.max_tokens_per_gpu 16384 \
   --train.batch_size 512 --rollout.batch_size 64 --rollout.n_samples_per_prompt 8 \
   --rollout.max_new_tokens 4096 --data.max_len 5120
