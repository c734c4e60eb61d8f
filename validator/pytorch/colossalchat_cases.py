"""Writes the cases of colossalchat_trainers.py: colossalchat_cases.py > CASES.json"""

import json

QWEN = dict(model_type="qwen2", vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
            num_attention_heads=14, num_key_value_heads=2, tie_word_embeddings=True)
LLAMA = dict(model_type="llama", vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
             num_attention_heads=32, num_key_value_heads=8, tie_word_embeddings=False, head_dim=64)
SMALL = dict(LLAMA, num_hidden_layers=2, vocab_size=32000)

ALL = "--pretrain MODEL --mixed_precision bf16 --max_epochs 1"
SFT = f"{ALL} --batch_size 4 --max_len 1024 --accumulation_steps 1"
PAIRS = f"{ALL} --batch_size 4 --max_length 1024 --accumulation_steps 1"


def case(name, program, words, model=QWEN, **more):
    return dict(name=name, program=f"colossalchat/{program}", words=words.split(), full_rows=True, model=model, **more)


CASES = [
    case("sft-small-zero2-traced", "train_sft", f"{ALL} --plugin zero2 --batch_size 2 --max_len 128 --accumulation_steps 1",
         SMALL, snapshot=True),
    case("sft-small-gemini-traced", "train_sft", f"{ALL} --plugin gemini --batch_size 2 --max_len 128 --accumulation_steps 1",
         SMALL, snapshot=True),
    case("sft-q05-zero2", "train_sft", f"{SFT} --plugin zero2"),
    case("sft-q05-zero2-ckpt", "train_sft", f"{SFT} --plugin zero2 --grad_checkpoint"),
    case("sft-q05-zero2-ckpt-batch8", "train_sft", f"{SFT} --plugin zero2 --grad_checkpoint --batch_size 8"),
    case("sft-ll1b-zero2-cpu-ckpt", "train_sft", f"{SFT} --plugin zero2_cpu --grad_checkpoint --use_flash_attn", LLAMA),
    case("sft-q05-zero2-acc2", "train_sft", f"{SFT} --plugin zero2 --grad_checkpoint --accumulation_steps 2"),
    case("sft-q05-gemini", "train_sft", f"{SFT} --plugin gemini --grad_checkpoint"),
    case("sft-q05-ddp", "train_sft", f"{SFT} --plugin ddp --grad_checkpoint"),
    case("dpo-q05-zero2-ckpt", "train_dpo", f"{PAIRS} --plugin zero2 --grad_checkpoint"),
    case("dpo-ll1b-zero2-cpu", "train_dpo", f"{PAIRS} --plugin zero2_cpu --grad_checkpoint --batch_size 2", LLAMA),
    case("dpo-q05-gemini", "train_dpo", f"{PAIRS} --plugin gemini --grad_checkpoint"),
    case("orpo-q05-zero2", "train_orpo", f"{PAIRS} --plugin zero2 --grad_checkpoint"),
    case("rm-q05-zero2", "train_rm", f"{PAIRS} --plugin zero2 --grad_checkpoint"),
]

if __name__ == "__main__":
    print(json.dumps(CASES, indent=1))
