#!/bin/bash
# ColossalChat's PPO of Llama-2-7B on eight H100: Gemini, which keeps gradients in chunks of their own until eight
# micro-batches have added up. Four sequences of 2,048 tokens are scored at once, whose logits exist four times.
MODEL=meta-llama/Llama-2-7b-hf
declare -a prompts=(
    prompts/part-00000
    prompts/part-00001
)
colossalai run --nproc_per_node 8 --hostfile hostfile --master_port 31312 train_ppo.py \
    --pretrain $MODEL --rm_pretrain $MODEL --tokenizer_dir $MODEL \
    --prompt_dataset ${prompts[@]} \
    --conversation_template_config template.json \
    --plugin "gemini" --mixed_precision "bf16" --grad_checkpoint --use_flash_attn \
    --num_collect_steps 2 --num_update_steps 1 \
    --experience_batch_size 4 --train_batch_size 1 --accumulation_steps 8 \
    --max_length 2048 --max_seq_len 512
