#!/bin/bash
# The same of GPT-2 medium under Gemini: all four models in chunks, each with a fp32 copy and a pinned one on the host.
#   headroom simulate FILE --gpu rtx_3090
GPUS=4
BATCH=${BATCH:-4}
torchrun --standalone --nproc_per_node=$GPUS train_prompts.py \
    --prompt_dataset prompts.json --pretrain_dataset texts.json \
    --strategy colossalai_gemini \
    --model gpt2 --pretrain gpt2-medium --rm_pretrain gpt2 \
    --num_collect_steps 2 --num_update_steps 2 \
    --experience_batch_size $BATCH --train_batch_size $BATCH \
    --max_input_len 128 --max_seq_len 256
