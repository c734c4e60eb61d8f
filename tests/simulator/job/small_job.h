#pragma once

#include <memory>

#include "simulator/job/job.h"

namespace headroom::test {

/// A decoder of 8 layers with 16 heads and 4 key/value heads, without weights.
inline std::shared_ptr<const Architecture> small_model() {
  auto model = std::make_shared<Architecture>();
  model->family = "llama";
  model->decoder.hidden = 1024;
  model->decoder.vocabulary = 32000;
  model->decoder.layers = 8;
  model->decoder.max_positions = 8192;
  Layer layer;
  layer.attention.heads = 16;
  layer.attention.kv_heads = 4;
  layer.attention.head_dim = 64;
  model->decoder.groups = {{.first = 0, .count = 8, .layer = layer}};
  return model;
}

/// One trained actor and one rollout engine on 8 GPUs.
inline Job small_job() {
  Job job;
  job.pools = {Pool{.name = "main", .nodes = 1, .gpus_per_node = 8}};
  Role actor;
  actor.name = "actor";
  actor.model = small_model();
  actor.trained = true;
  actor.packed = true;
  actor.train.tokens = actor.forward.tokens = 16384;
  job.roles = {actor};
  Engine engine;
  engine.name = "rollout";
  engine.model = actor.model;
  engine.tensor = 2;
  job.engines = {engine};
  Process trainer;
  trainer.name = "trainer";
  trainer.roles = {"actor"};
  Process rollout;
  rollout.name = "rollout";
  rollout.engine = "rollout";
  job.processes = {trainer, rollout};
  job.batch.prompts = 256;
  job.batch.samples = 8;
  job.batch.mini_batch = 512;
  job.batch.prompt_length = 1024;
  job.batch.response_length = 2048;
  return job;
}

}  // namespace headroom::test
