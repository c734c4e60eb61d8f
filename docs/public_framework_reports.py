"""Prints docs/FRAMEWORK_REPORTS.md: public reports of frameworks beside verl against the answer for the same command.
Arguments: the headroom binary, and a folder with checkouts (DeepSpeedExamples, RL), as docs/public_scripts.py takes it.

A report is *undetermined* where it leaves out what decides; the last column says what. Nothing in the predictions knows of a
report.
"""
import os, shlex, subprocess, sys

HEADROOM, ROOT = sys.argv[1], os.path.abspath(sys.argv[2])
RAY = "python3 -m openrlhf.cli.train_ppo_ray --advantage_estimator group_norm --max_epochs 1 --bf16 --remote_rm_url rewards.py "
CHAT = ("main.py --num_padding_at_beginning 1 --ppo_epochs 1 --max_answer_seq_len 256 --max_prompt_seq_len 256 "
        "--actor_gradient_checkpointing --critic_gradient_checkpointing ")
COATI = "torchrun --standalone --nproc_per_node=4 train_sft.py --model llama --pretrain huggyllama/llama-7b --strategy colossalai_zero2 "
CONFIGS = ROOT + "/RL/examples/configs/"
OOM, RAN = "ran out of memory", "ran"

# Where it was reported, what, on what, what happened, options, command; or, in place of the last two, what is missing.
REPORTS = [
    ("OpenRLHF/OpenRLHF", 776, "70B PPO without critic, 72 A800", OOM, "--gpu a800", RAY +
     "--ref_num_nodes 4 --ref_num_gpus_per_node 8 --actor_num_nodes 4 --actor_num_gpus_per_node 8 --vllm_num_engines 1 "
     "--vllm_tensor_parallel_size 8 --micro_train_batch_size 1 --train_batch_size 128 --micro_rollout_batch_size 2 "
     "--rollout_batch_size 256 --prompt_max_len 1024 --generate_max_len 1024 --zero_stage 3 --init_kl_coef 0.01 "
     "--n_samples_per_prompt 4 --normalize_reward --packing_samples --adam_offload --flash_attn --gradient_checkpointing "
     "--pretrain meta-llama/Llama-3.1-70B-Instruct"),
    ("OpenRLHF/OpenRLHF", 1066, "Qwen3-8B, 12,288 tokens, 7 H800", OOM, "--gpu h800", RAY +
     "--ref_num_nodes 1 --ref_num_gpus_per_node 1 --actor_num_nodes 1 --actor_num_gpus_per_node 4 --vllm_num_engines 1 "
     "--vllm_tensor_parallel_size 2 --vllm_gpu_memory_utilization 0.6 --use_kl_loss --micro_train_batch_size 1 "
     "--train_batch_size 4 --micro_rollout_batch_size 32 --rollout_batch_size 128 --n_samples_per_prompt 2 "
     "--prompt_max_len 4096 --generate_max_len 8192 --zero_stage 3 --gradient_checkpointing --vllm_sync_backend nccl "
     "--enforce_eager --vllm_enable_sleep --use_liger_kernel --adam_offload --pretrain Qwen/Qwen3-8B"),
    ("OpenRLHF/OpenRLHF", 887, "7B, 37,888 tokens, 24 H100", OOM, "--gpu h100", RAY +
     "--n_samples_per_prompt 8 --ref_num_nodes 3 --ref_num_gpus_per_node 6 --actor_num_nodes 3 --actor_num_gpus_per_node 1 "
     "--vllm_num_engines 3 --vllm_tensor_parallel_size 1 --enable_prefix_caching --micro_train_batch_size 1 "
     "--train_batch_size 576 --micro_rollout_batch_size 1 --rollout_batch_size 72 --prompt_max_len 1024 "
     "--generate_max_len 36864 --zero_stage 3 --grad_accum_dtype bf16 --pretrain Qwen/Qwen2.5-7B-Instruct"),
    ("OpenRLHF/OpenRLHF", 901, "Qwen2.5-7B, 4 RTX 6000 Ada", OOM, "--gpu rtx-6000-ada", RAY +
     "--ref_num_nodes 1 --ref_num_gpus_per_node 2 --actor_num_nodes 1 --actor_num_gpus_per_node 2 --micro_train_batch_size 2 "
     "--train_batch_size 64 --micro_rollout_batch_size 2 --rollout_batch_size 256 --n_samples_per_prompt 8 "
     "--prompt_max_len 1024 --generate_max_len 1 --init_kl_coef 0.01 --use_kl_estimator_k3 --use_kl_loss --zero_stage 2 "
     "--normalize_reward --flash_attn --pretrain Qwen/Qwen2.5-7B-Instruct"),
    ("OpenRLHF/OpenRLHF", 384, "GLM-4-9B, DPO, 8 A100", OOM + " after tens of steps; not with FlashAttention", None,
     "what the model's own code takes, which came with its weights"),
    ("OpenRLHF/OpenRLHF", 398, "Llama-3 8B with reward model and critic, 8 A100 of 40 GB", OOM, None, "placement of the models"),
    ("OpenRLHF/OpenRLHF", 1013, "7B, 16 GPUs", "ran out of host memory", None, "the card; GPU memory is not what ended it"),
    ("huggingface/trl", 3456, "Qwen3 0.6B, 1.7B and 4B, GRPO, one A100", "48 GB, 76 GB, out of memory", None,
     "lengths of the data, num_generations"),
    ("huggingface/trl", 2971, "13B, GRPO with vLLM, 8 A800", RAN, None, "the model"),
    ("deepspeedai/DeepSpeedExamples", 368, "OPT-13B, step 3, 8 A100 of 40 GB", OOM, "--gpu a100-40gb",
     "deepspeed --num_gpus 8 " + CHAT + "--actor_model_name_or_path facebook/opt-13b --critic_model_name_or_path facebook/opt-350m "
     "--per_device_train_batch_size 1 --per_device_mini_train_batch_size 1 --generation_batch_numbers 1 --enable_hybrid_engine "
     "--actor_zero_stage 3 --critic_zero_stage 3 --offload_reference_model"),
    ("deepspeedai/DeepSpeedExamples", 368, "the same, 8 A100 of 80 GB", RAN + ", 55 GB", "--gpu a100-80gb",
     "deepspeed --num_gpus 8 " + CHAT + "--actor_model_name_or_path facebook/opt-13b --critic_model_name_or_path facebook/opt-350m "
     "--per_device_train_batch_size 1 --per_device_mini_train_batch_size 1 --generation_batch_numbers 1 --enable_hybrid_engine "
     "--actor_zero_stage 3 --critic_zero_stage 3 --offload_reference_model"),
    ("deepspeedai/DeepSpeedExamples", 705, "Llama-2 7B, step 3, 8 A100 of 40 GB", OOM, "--gpu a100-40gb",
     "deepspeed --num_gpus 8 " + CHAT + "--actor_model_name_or_path meta-llama/Llama-2-7b-hf --critic_model_name_or_path "
     "facebook/opt-350m --per_device_generation_batch_size 1 --per_device_training_batch_size 1 --generation_batches 1 "
     "--enable_hybrid_engine --disable_actor_dropout --actor_zero_stage 2 --critic_zero_stage 2 --offload_reference_model"),
    ("deepspeedai/DeepSpeed", 3312, "OPT-1.3B, step 3, one V100 of 32 GB", OOM, "--gpu v100-32gb",
     "deepspeed --num_gpus 1 " + CHAT + "--actor_model_name_or_path facebook/opt-1.3b --critic_model_name_or_path facebook/opt-350m "
     "--gradient_accumulation_steps 2 --per_device_train_batch_size 1 --per_device_mini_train_batch_size 1"),
    ("deepspeedai/DeepSpeedExamples", 410, "OPT-13B, step 3, 32 rows, 8 A100", OOM + ", with 16 not", None,
     "the flags of that year's run_13b.sh"),
    ("hpcaitech/ColossalAI", 4899, "LLaMA-7B, SFT, 4 A100", OOM, "--gpu a100-80gb", COATI + "--batch_size 1"),
    ("hpcaitech/ColossalAI", 3509, "LLaMA-7B, SFT, 4 cards of 24 GB", OOM, "--gpu rtx-4090",
     COATI + "--batch_size 2 --accimulation_steps 8 --max_datasets_size 512 --max_epochs 1"),
    ("hpcaitech/ColossalAI", 3331, "LLaMA-7B, SFT with adapters, 4 A100 of 40 GB", OOM + " near the end; not with less data", None,
     "what grew: the data lay in host memory"),
    ("NVIDIA-NeMo/RL", 3793, "1.5B, PPO, its own ppo_math_1B.yaml", OOM + " in get_logprobs", "--gpu h100", CONFIGS + "ppo_math_1B.yaml"),
    ("NVIDIA-NeMo/RL", 33, "Llama-3.1 8B, GRPO, its own grpo_math_8B.yaml, 8 H100", RAN + ": 48 GB while vLLM generates", "--gpu h100",
     CONFIGS + "grpo_math_8B.yaml"),
    ("NVIDIA-NeMo/RL", 366, "Llama-3.1 8B, SFT, rows of 4,096 tokens, 8 GPUs", RAN + " with two rows, not with four", None,
     "the card (on an H100 four rows are 1 to 4 GiB within it)"),
    ("NVIDIA-NeMo/RL", 1922, "Nemotron-3 Nano 30B, DPO, TP 4, 4 A100", OOM + " at start", "--gpu a100-80gb --gpus-per-node 4 "
     "--set policy.dtensor_cfg.tensor_parallel_size=4 --set policy.dtensor_cfg.cpu_offload=true "
     "--set policy.dtensor_cfg.activation_checkpointing=true --set policy.max_total_sequence_length=3400 "
     "--model nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", CONFIGS + "dpo.yaml"),
    ("alibaba/ChatLearn", 288, "Qwen3-32B, 16 H800", OOM, None, "the script (posted for another model)"),
    ("hiyouga/EasyR1", 9, "Qwen2.5-VL-7B, 4 H100", OOM, None, "pictures are not modelled"),
]
KINDS = {0: "fits", 3: "does not fit", 5: "undetermined"}


def answer(options, command):
    words = [command] if command.endswith(".yaml") else ["--", *shlex.split(command)]
    run = subprocess.run([HEADROOM, "estimate", "--quiet", *shlex.split(options), *words], capture_output=True, text=True)
    assert run.returncode in KINDS, run.stderr
    return KINDS[run.returncode], run.stdout.strip().splitlines()[-1].split(": ", 1)[1].replace(ROOT, "")


def main():
    rows, counts = [], {"right": 0, "wrong": 0, "undetermined": 0}
    false_fits = 0
    for repository, number, run, happened, options, command in REPORTS:
        kind, why = ("undetermined", "not stated: " + command) if options is None else answer(options, command)
        ran = happened.startswith(RAN) and not happened.startswith(OOM)
        judged = kind if kind == "undetermined" else "right" if (kind == "fits") == ran else "wrong"
        false_fits += kind == "fits" and not ran
        counts[judged] += 1
        rows.append(f"| [{repository} {number}](https://github.com/{repository}/issues/{number}) | {run} | {happened} | {kind} | "
                    f"{judged} | {why} |")
    known = counts["right"] + counts["wrong"]
    print("# Public reports of other frameworks\n")
    print(__doc__.split("\n\n", 1)[1].strip() + "\n")
    print(f"**{counts['right']} of {known} determined reports are right**, {false_fits} false \"fits\"; {counts['undetermined']} of "
          f"{len(rows)} are undetermined.\n")
    print("| report | run | happened | Headroom | | why |\n| --- | --- | --- | --- | --- | --- |")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
