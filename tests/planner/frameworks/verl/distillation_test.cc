#include <gmock/gmock.h>

#include <algorithm>

#include "tests/planner/frameworks/verl/run.h"

namespace headroom {
namespace {

using test::complaint;
using test::job_of;
using testing::HasSubstr;

const std::string kTeachers = "distillation.teacher_models.";

std::vector<std::string> one_teacher(std::initializer_list<const char*> more = {}) {
  std::vector<std::string> out = {"distillation.enabled=true", "distillation.nnodes=1", "distillation.n_gpus_per_node=4",
                                  "++" + kTeachers + "teacher_model.model_path=Qwen/Qwen3-32B",
                                  "++" + kTeachers + "teacher_model.inference.tensor_model_parallel_size=2",
                                  "++" + kTeachers + "teacher_model.inference.gpu_memory_utilization=0.4",
                                  "++distillation.distillation_loss.loss_mode=k1",
                                  "++distillation.distillation_loss.use_policy_gradient=true"};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

TEST(VerlDistillation, ATeacherServesOnGpusOfItsOwn) {
  const Job job = job_of("0.9.0", one_teacher());
  const Engine* teacher = job.engine("teacher");
  ASSERT_NE(teacher, nullptr);
  EXPECT_EQ(teacher->model->decoder.hidden, 5120);
  EXPECT_EQ(teacher->tensor, 2);
  EXPECT_EQ(teacher->sleep_level, 0);
  const auto pool = std::find_if(job.pools.begin(), job.pools.end(), [](const Pool& one) { return one.name == "teacher"; });
  ASSERT_NE(pool, job.pools.end());
  EXPECT_EQ(pool->gpus(), 4);
  EXPECT_EQ(std::count_if(job.step.begin(), job.step.end(), [](const PhaseSpec& one) { return one.name == "teacher_logprob"; }), 1);
  EXPECT_TRUE(job.not_modelled.empty());
}

TEST(VerlDistillation, SeveralTeachersShareTheGpusOut) {
  std::vector<std::string> words = one_teacher({"distillation.n_gpus_per_node=3"});
  for (const auto& [name, model, size] : {std::array<std::string, 3>{"math", "Qwen/Qwen3-32B", "2"},
                                          std::array<std::string, 3>{"code", "Qwen/Qwen3-8B", "1"}}) {
    words.push_back("++" + kTeachers + name + ".model_path=" + model);
    words.push_back("++" + kTeachers + name + ".num_replicas=1");
    words.push_back("++" + kTeachers + name + ".inference.tensor_model_parallel_size=" + size);
  }
  const Job job = job_of("0.9.0", words);
  EXPECT_EQ(job.engine("teacher"), nullptr);  // the default one is dropped beside others
  ASSERT_NE(job.engine("teacher_math"), nullptr);
  ASSERT_NE(job.engine("teacher_code"), nullptr);
  words.push_back("distillation.n_gpus_per_node=4");
  EXPECT_THAT(complaint("0.9.0", words), HasSubstr("expected as many GPUs as the teachers' replicas take (3), found 4"));
}

TEST(VerlDistillation, SaysWhatVerlRefusesAndWhatHasNoProgram) {
  EXPECT_THAT(complaint("0.9.0", one_teacher({"++distillation.distillation_loss.use_policy_gradient=false"})),
              HasSubstr("use_policy_gradient=true with k1"));
  EXPECT_THAT(complaint("0.9.0", one_teacher({"++distillation.distillation_loss.loss_mode=forward_kl_topk"})),
              HasSubstr("expected an estimator"));
  EXPECT_THAT(job_of("0.9.0", one_teacher({"++distillation.distillation_loss.loss_mode=forward_kl_topk",
                                           "++distillation.distillation_loss.use_policy_gradient=false"}))
                  .not_modelled,
              testing::ElementsAre(HasSubstr("forward_kl_topk")));
}

}  // namespace
}  // namespace headroom
