#include "planner/frameworks/shell/launch.h"

#include <gtest/gtest.h>

namespace headroom::shell {
namespace {

Context context;

Reading read(const std::string& text, std::vector<std::string> words = {}) {
  Context with = context;
  with.words = std::move(words);
  with.directory = "/work/run";
  with.variable = [](const std::string& name) -> std::optional<std::string> {
    if (name == "HOME") return "/home/me";
    return std::nullopt;
  };
  Result<Reading> reading = read_script(text, "run.sh", with);
  EXPECT_TRUE(reading) << text << "\n" << (reading ? "" : reading.error().text());
  return reading ? std::move(*reading) : Reading{};
}

/// The words of the only launch, one a line.
std::string words(const std::string& text, std::vector<std::string> given = {}) {
  const Reading reading = read(text, std::move(given));
  EXPECT_EQ(reading.launches.size(), 1u) << text;
  std::string out;
  if (!reading.launches.empty())
    for (const Word& word : reading.launches[0].words) out += (out.empty() ? "" : "|") + word.text;
  return out;
}

std::string error(const std::string& text) {
  const auto reading = read_script(text, "run.sh", context);
  EXPECT_FALSE(reading) << text;
  return reading ? "" : reading.error().text();
}

/// ColossalAI's launcher has its word before its options, as accelerate does.
TEST(ShellLaunch, RunsOfColossalAi) {
  context = {};
  const Reading reading = read("colossalai run --nproc_per_node 8 --hostfile=hosts train.py --plugin zero2");
  ASSERT_EQ(reading.launches.size(), 1u);
  const Launch& launch = reading.launches.front();
  EXPECT_EQ(launch.runner, "colossalai");
  EXPECT_EQ(launch.program, "train.py");
  EXPECT_EQ(launch.words.size(), 2u);
  ASSERT_NE(launch.runner_option({"--nproc_per_node"}), nullptr);
  EXPECT_EQ(launch.runner_option({"--nproc_per_node"})->text, "8");
}

TEST(ShellLaunch, AnItemThatNobodyKnowsIsNoError) {
  context = {};
  EXPECT_EQ(read("L=(a b)\ni=$((RANDOM % 2))\npython3 -m m x=${L[$i]}").launches.size(), 1u);
}

TEST(ShellLaunch, ExpandsWordsAsBashDoes) {
  context = {};
  EXPECT_EQ(words("A=8\npython3 -m m a=$A b=\"$A x\" c='$A' d=${A}x e=\\$A"), "a=8|b=8 x|c=$A|d=8x|e=$A");
  EXPECT_EQ(words("python3 -m m ${A:-3} ${B:=4} $B ${B:+set} ${C-} \"${C-}\""), "3|4|4|set|");
  EXPECT_EQ(words("A='x  y'; python3 -m m $A \"$A\""), "x|y|x  y");
  EXPECT_EQ(words("P=a/b/c.tar.gz; python3 -m m ${P##*/} ${P#*/} ${P%.*} ${P%%.*} ${#P}"),
            "c.tar.gz|b/c.tar.gz|a/b/c.tar|a/b/c|12");
  EXPECT_EQ(words("P=Ab.cb; python3 -m m ${P,,} ${P^^} ${P/b/x} ${P//b/x} ${P:1:2} ${P: -2}"),
            "ab.cb|AB.CB|Ax.cb|Ax.cx|b.|cb");
  EXPECT_EQ(words("python3 -m m ~/data x=~/data a{1,2}b {1..3} '{1,2}'"),
            "/home/me/data|x=~/data|a1b|a2b|1|2|3|{1,2}");
  EXPECT_EQ(words("N=X; X=7; python3 -m m ${!N} $((X * 2)) $(( (1 + 2) * X ))"), "7|14|21");
  EXPECT_EQ(words("python3 -m m \\\n  a=1 \\\n  b=2 # c=3\n"), "a=1|b=2");
  EXPECT_EQ(words("python3 -m m a=1\r\n"), "a=1");
}

TEST(ShellLaunch, FollowsArraysAndPositionalWords) {
  context = {};
  EXPECT_EQ(words("A=(x=1 'y=2 3')\nA+=(z=4)\npython3 -m m \"${A[@]}\" ${#A[@]} ${A[1]}"),
            "x=1|y=2 3|z=4|3|y=2|3");
  EXPECT_EQ(words("declare -A M=([q]=7 [\"l l\"]=8); k=q; python3 -m m ${M[$k]} \"${M[l l]}\" ${!M[@]}"),
            "7|8|q|l|l");
  EXPECT_EQ(words("python3 -m m \"$@\" $# \"${@:2}\"", {"a=1", "b c"}), "a=1|b c|2|b c");
  EXPECT_EQ(words("M=$1; shift; python3 -m m model=$M $@", {"x", "a=1"}), "model=x|a=1");
  EXPECT_EQ(words("set -- p q; python3 -m m $2 $1"), "q|p");
  EXPECT_EQ(words("E=(); python3 -m m a \"${E[@]}\" b"), "a|b");
}

TEST(ShellLaunch, FollowsControlFlow) {
  context = {};
  EXPECT_EQ(words("E=vllm\nif [ \"$E\" = vllm ]; then M=1; elif [[ $E == sg* ]]; then M=2; else M=3; "
                  "fi\npython3 -m m $M"),
            "1");
  EXPECT_EQ(words("E=sglang\nif [ \"$E\" = vllm ]; then M=1; elif [[ $E == sg* ]]; then M=2; else M=3; "
                  "fi\npython3 -m m $M"),
            "2");
  EXPECT_EQ(words("case Qwen3-8B in Llama*) M=1;; *3-4B|*3-8B) M=2;; *) M=3;; esac; python3 -m m $M"), "2");
  EXPECT_EQ(words("S=0; for i in 1 2 3; do [ $i -eq 2 ] && continue; S=$((S+i)); done; python3 -m m $S"),
            "4");
  EXPECT_EQ(words("S=0; for ((i=0;i<4;i++)); do S=$((S+i)); done; while ((S > 3)); do ((S--)); done; python3 "
                  "-m m $S"),
            "3");
  EXPECT_EQ(
      words(
          "while [[ $# -gt 0 ]]; do case $1 in --n) N=$2; shift 2;; *) shift;; esac; done; python3 -m m n=$N",
          {"--x", "--n", "4"}),
      "n=4");
  EXPECT_EQ(words("f() { local x=$1; Y=${x}1; return 0; Y=no; }\nx=0; f a; python3 -m m $x $Y"), "0|a1");
  EXPECT_EQ(words("[ -z \"$NOPE\" ] && A=empty; [[ -n ${NOPE:-} || 3 -lt 4 ]] && B=yes; python3 -m m $A $B"),
            "empty|yes");
  EXPECT_EQ(words("(A=2; cd /x); A=${A:-1}; python3 -m m $A; exit 0; python3 -m other"), "1");
}

TEST(ShellLaunch, KnowsWhatHarmlessCommandsPrint) {
  context = {};
  EXPECT_EQ(
      words(
          "D=$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd); python3 -m m $D $(basename a/b.json .json)"),
      "/work/run|b");
  EXPECT_EQ(words("C=0,1,2,3; N=$(echo $C | tr ',' '\\n' | wc -l); python3 -m m $N `echo hi` $(seq 2 4) "
                  "$(printf '%s-%d' a 3)"),
            "4|hi|2|3|4|a-3");
  EXPECT_EQ(words("X=$(cat <<EOF\na=$((1+1))\nEOF\n)\npython3 -m m $X"), "a=2");
}

/// Scripts for several makers' cards ask the machine; predictions are of NVIDIA's.
TEST(ShellLaunch, KnowsWhatAMachineWithNvidiaCardsAnswers) {
  context = {};
  EXPECT_EQ(words("D=$(python3 -c 'import torch_npu' 2>/dev/null && echo npu || echo gpu)\n"
                  "case $D in gpu) N=8 ;; *) exit 1 ;; esac\npython3 -m m $D $N"),
            "gpu|8");
  EXPECT_EQ(words("if command -v npu-smi >/dev/null; then D=npu; else D=gpu; fi; python3 -m m $D"), "gpu");
  EXPECT_EQ(words("if which nvidia-smi; then D=gpu; else D=cpu; fi; python3 -m m $D"), "gpu");
  EXPECT_FALSE(read("python3 -c 'import vllm' && E=vllm || E=sglang\npython3 -m m $E").launches[0].words[0].known());
}

TEST(ShellLaunch, KeepsUnknownValuesWithTheirOrigin) {
  context = {};
  const Reading reading = read("\nT=$(date +%s)\npython3 -m m n=$NODES \\\n  name=x-$T $ALONE k=1\n");
  ASSERT_EQ(reading.launches.size(), 1u);
  const auto& all = reading.launches[0].words;
  ASSERT_EQ(all.size(), 3u);  // nothing sets ALONE: no word
  EXPECT_FALSE(all[0].known());
  EXPECT_EQ(what_is_missing(all[0]), "$NODES: nothing sets it; give --env NODES=VALUE");
  EXPECT_EQ(all[0].place.line, 3);
  EXPECT_EQ(all[1].place.line, 4);
  EXPECT_EQ(all[1].unknown[0].line, 2);
  EXPECT_TRUE(all[2].known());
  context.environment["NODES"] = "4";
  EXPECT_EQ(words("python3 -m m n=$NODES e=$((NODES * 8))"), "n=4|e=32");
}

TEST(ShellLaunch, GoesBothWaysWhereATestCantBeFollowed) {
  context = {};
  const Reading reading = read(
      "A=1; B=1\nif nvidia-smi | grep -q H100; then A=2; B=1; fi\nif [ ! -d data ]; then exit 1; fi\n"
      "if command -v x; then python3 -m first; fi\npython3 -m m $A $B");
  ASSERT_EQ(reading.launches.size(), 2u);
  EXPECT_FALSE(reading.launches[0].certain);
  EXPECT_TRUE(reading.launches[1].certain);
  EXPECT_FALSE(reading.launches[1].words[0].known());
  EXPECT_NE(what_is_missing(reading.launches[1].words[0]).find("run.sh:2"), std::string::npos);
  EXPECT_EQ(reading.launches[1].words[1].text, "1");
}

TEST(ShellLaunch, TakesSlurmsVariablesFromTheScriptsOwnLines) {
  context = {};
  const std::string job = "#!/bin/bash\n#SBATCH --nodes=4   # machines\n#SBATCH --gres=gpu:h100:8\n";
  EXPECT_EQ(words(job + "python3 -m m n=$SLURM_JOB_NUM_NODES g=${SLURM_GPUS_ON_NODE:-2}"), "n=4|g=8");
  EXPECT_EQ(words("#SBATCH -N 2\n#SBATCH --gpus-per-node 4\npython3 -m m $SLURM_NNODES $SLURM_GPUS_PER_NODE"), "2|4");
  EXPECT_EQ(words("#SBATCH --nodes=2-4\npython3 -m m ${SLURM_NNODES:-1}"), "1");
  EXPECT_EQ(words("A=1\n#SBATCH --nodes=2\npython3 -m m ${SLURM_NNODES:-1}"), "1");
  context.environment["SLURM_NNODES"] = "3";
  EXPECT_EQ(words("#SBATCH --nodes=2\npython3 -m m $SLURM_NNODES"), "3");
  context = {};
}

TEST(ShellLaunch, GoesOnWhereAScriptAsksForVariables) {
  context = {};
  const std::string asks = "M=${M:-}\nif [ -z \"$M\" ]; then echo no M; exit 1; fi\n[[ -z $N ]] && exit 2\n";
  const Reading reading = read(asks + "python3 -m m model=$M n=2");
  ASSERT_EQ(reading.launches.size(), 1u);
  EXPECT_EQ(reading.launches[0].words[0].unknown.size(), 1u);
  EXPECT_EQ(reading.launches[0].words[1].text, "n=2");
  ASSERT_FALSE(reading.remarks.empty());
  EXPECT_NE(reading.remarks[0].message.find("M, N is not set"), std::string::npos) << reading.remarks[0].message;
  EXPECT_TRUE(read("M=\n[ -z \"$M\" ] && exit 1\npython3 -m m").launches.empty());  // its own value
}

TEST(ShellLaunch, OneModelInTwoPlacesIsThatModel) {
  context = {};
  EXPECT_EQ(words("M=$D/model/Qwen2.5-3B-Instruct\n[ ! -d \"$M\" ] && M=Qwen/Qwen2.5-3B-Instruct\npython3 -m m $M"),
            "Qwen/Qwen2.5-3B-Instruct");
}

TEST(ShellLaunch, TakesWrappersOff) {
  context = {};
  for (const char* before :
       {"nohup", "A=1 B=2", "env A=1", "uv run", "uv run --frozen --", "srun --nodes=2 -w n1",
        "ray job submit --address=x --runtime-env=y --", "ray job submit -- A=1 nohup", "stdbuf -oL",
        "CUDA_VISIBLE_DEVICES=0 timeout 3h", "conda run -n verl", "sudo -E", "bash -c \"true\"; "})
    EXPECT_EQ(words(std::string(before) + " python3 -u -m verl.trainer.main_ppo a=1 > log 2>&1 | tee x &"),
              "a=1")
        << before;
  EXPECT_EQ(words("srun bash -c \"cd x && python3 -m m a=$((1+1)) \\$HOST\""), "a=2");
  EXPECT_EQ(words("CMD=\"python3 -m m a=1\"; $CMD b=2; "), "a=1|b=2");
  EXPECT_EQ(words("eval \"python3 -m m a=1\""), "a=1");
}

TEST(ShellLaunch, KnowsRunners) {
  context = {};
  const auto first = [](const std::string& text) {
    const Reading reading = read(text);
    if (reading.launches.size() != 1) return std::string("none");
    const Launch& l = reading.launches[0];
    return l.runner + " " + l.program + (l.module ? " -m" : "") + " " + std::to_string(l.words.size());
  };
  EXPECT_EQ(first("torchrun --standalone --nnodes=1 --nproc_per_node 8 -m verl.trainer.fsdp_sft_trainer a=1"),
            "torchrun verl.trainer.fsdp_sft_trainer -m 1");
  EXPECT_EQ(first("deepspeed --num_gpus 8 --module openrlhf.cli.train_ppo --pretrain x"),
            "deepspeed openrlhf.cli.train_ppo -m 2");
  EXPECT_EQ(first("accelerate launch --config_file z3.yaml --multi_gpu train.py --x 1"),
            "accelerate train.py 2");
  EXPECT_EQ(first("python -m torch.distributed.run --nproc_per_node=2 train.py a"), "torchrun train.py 1");
  EXPECT_EQ(first("trl grpo --config x.yaml"), "trl trl 3");
  EXPECT_EQ(first("python3 -c 'print(1)'"), "none");
  EXPECT_EQ(first("python3 - <<EOF\nimport x\nEOF"), "none");
  const Reading reading = read("torchrun --nproc_per_node=8 t.py");
  EXPECT_EQ(reading.launches[0].runner_option({"--nproc_per_node", "--nproc-per-node"})->text, "8");
}

TEST(ShellLaunch, ReadsOtherFiles) {
  context = {};
  context.file = [](const std::string& path) -> std::optional<std::string> {
    if (path.ends_with("env.sh")) return "MODEL=m7\nexport A=1";
    if (path.ends_with("inner.sh")) return "python3 -m m $1 a=$A b=$B";
    return std::nullopt;
  };
  EXPECT_EQ(words("source env.sh; export B=2; bash inner.sh $MODEL"), "m7|a=1|b=2");
  const Reading reading = read("source other.sh; python3 -m m x=$X");
  ASSERT_EQ(reading.remarks.size(), 1u);
  EXPECT_NE(reading.remarks[0].message.find("other.sh can't be read"), std::string::npos);
  context.file = [](const std::string&) { return std::optional<std::string>("source self.sh"); };
  EXPECT_NE(error("source self.sh").find("20 levels"), std::string::npos);
}

TEST(ShellLaunch, FindsFilesInTheFoldersAbove) {
  context = {};
  context.directory = "/somewhere";
  context.file = [](const std::string& path) -> std::optional<std::string> {
    return path == "/project/scripts/env.sh" ? std::optional<std::string>("export N=4") : std::nullopt;
  };
  const auto launch = [](const std::string& at) {
    const Result<Reading> reading = read_script("source scripts/env.sh; python3 -m m n=$N", at, context);
    return reading->launches.at(0).words.at(0).text;
  };
  EXPECT_EQ(launch("/project/scripts/dense/run.sh"), "n=4");
  EXPECT_NE(launch("/elsewhere/dense/run.sh"), "n=4");
}

TEST(ShellLaunch, CountsTheGpusOfTheMachineThatIsMeant) {
  context = {};
  const std::string count = "N=$(python3 -c \"import torch; print(torch.cuda.device_count())\"); python3 -m m n=$N";
  const std::string list = "python3 -m m n=$(nvidia-smi -L | wc -l)";
  EXPECT_EQ(words(count), "n=8");
  ASSERT_EQ(read(count).remarks.size(), 1u);
  EXPECT_NE(read(count).remarks[0].message.find("--gpus-per-node"), std::string::npos);
  context.gpus = 2;
  EXPECT_EQ(words(count), "n=2");
  EXPECT_EQ(words(list), "n=2");
  EXPECT_TRUE(read(count).remarks.empty());
  EXPECT_EQ(words("export CUDA_VISIBLE_DEVICES=0,1,3\n" + count), "n=3");
  EXPECT_EQ(words("export CUDA_VISIBLE_DEVICES=0\n" + list), "n=2");
}

TEST(ShellLaunch, TellsOfWordsThatWereCutOff) {
  context = {};
  const Reading reading = read("python3 -m m a.b=1 \\\n  # why\n  c.d=2\n");
  ASSERT_EQ(reading.remarks.size(), 1u);
  EXPECT_EQ(reading.remarks[0].line, 3);
}

TEST(ShellLaunch, RemembersWhereWordsStand) {
  context = {};
  const std::string text = "A=(a=1 b=2)\npython3 -m m \"${A[@]}\" c=3\n";
  const Reading reading = read(text);
  const auto at = [&](std::size_t i) {
    const Place& place = reading.launches[0].words[i].place;
    return text.substr(place.begin, place.end - place.begin);
  };
  EXPECT_EQ(at(0), "a=1");
  EXPECT_EQ(at(1), "b=2");
  EXPECT_EQ(at(2), "c=3");
}

TEST(ShellLaunch, NamesTheLineOfBrokenSyntax) {
  context = {};
  EXPECT_EQ(error("a=1\necho \"x\n"), "run.sh:3: a quote is not closed: expected \"");
  EXPECT_EQ(error("if true; then\n x\n"), "run.sh:3: expected fi, found 'the end'");
  EXPECT_EQ(error("a=(1 2"), "run.sh:1: an array is not closed: expected )");
  EXPECT_EQ(error("echo $((1 +))"), "run.sh:1: arithmetic: expected a value, found the end in $((1 +))");
  EXPECT_NE(error("x)"), "");
  EXPECT_NE(error("echo ${a"), "");
  EXPECT_NE(error("for in; do"), "");
}

TEST(ShellLaunch, EndsWithHostileScripts) {
  context = {};
  EXPECT_NE(error(std::string(5000, '(')), "");
  std::string deep;
  for (int i = 0; i < 2000; ++i) deep += "$(";
  EXPECT_NE(error("echo " + deep), "");
  deep.clear();
  for (int i = 0; i < 2000; ++i) deep += "${a:-";
  EXPECT_NE(error("echo " + deep), "");
  deep.clear();
  for (int i = 0; i < 2000; ++i) deep += "$((";
  EXPECT_NE(error("echo " + deep), "");
  EXPECT_NE(error("f() { f; }; f"), "");
  EXPECT_NE(error("f() { x=$(f); }; f"), "");
  EXPECT_NE(error("a=x; while true; do a=$a$a$a$a; done"), "");
  EXPECT_NE(error("for i in {1..10000}; do for j in {1..10000}; do x=$i; done; done"), "");
  read("while true; do sleep 1; done");
  std::string branches;
  for (int i = 0; i < 60; ++i) branches += "if x; then A=" + std::to_string(i) + "; fi\n";
  read(branches + "python3 -m m $A");
}

TEST(ShellLaunch, ReadsACommandsWords) {
  const std::vector<std::string> command = {"A=1", "python3", "-m", "verl.trainer.main_ppo", "a.b=c d", "$x"};
  const auto reading = read_command(command, {});
  ASSERT_TRUE(reading);
  ASSERT_EQ(reading->launches.size(), 1u);
  EXPECT_EQ(reading->launches[0].words[0].text, "a.b=c d");
  EXPECT_TRUE(reading->launches[0].words[1].known());  // the shell has expanded it already
  EXPECT_EQ(reading->launches[0].environment.at("A").text, "1");
}

TEST(ShellLaunch, TellsScriptsFromConfigurations) {
  EXPECT_TRUE(looks_like_script("x", "run.sh"));
  EXPECT_TRUE(looks_like_script("#!/bin/bash\n", "run"));
  EXPECT_TRUE(looks_like_script("set -x\nA=1 python3 -m m \\\n a=1", "-"));
  EXPECT_TRUE(looks_like_script("$ ray job submit -- python3 x.py", "-"));
  EXPECT_FALSE(looks_like_script("trainer:\n  nnodes: 1\n", "run.yaml"));
  EXPECT_FALSE(looks_like_script("a.b=1\nc.d=2\n", "run.args"));
  EXPECT_FALSE(looks_like_script("python: 3\nray: {a: 1}\n", "run.yaml"));
}

}  // namespace
}  // namespace headroom::shell
