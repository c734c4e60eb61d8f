#pragma once

#include <vector>

#include "simulator/engine/account.h"
#include "simulator/job/job.h"

namespace headroom::engine {

/// Requests that end after as many tokens.
struct Requests {
  double count = 0, tokens = 0;
};

/// What one replica of an engine generates for a step, or for the steps that it works on at the same time.
struct RequestLoad {
  double prompt = 0;           ///< tokens of one
  double prompts = 0;          ///< different ones: their samples share them
  double slots = 1;            ///< requests that may run at once
  double cache = 0;            ///< tokens that the KV cache holds; 0: it does not matter
  double batches = 1;          ///< steps' worth of requests that are in flight together
  std::vector<Requests> ends;  ///< all requests of these steps by their length, the shortest first

  double requests() const;
};

/// The load of a job at its usual lengths where they are known, else at the caps. Responses end at random, at
/// a rate that gives their mean, but at the cap at the latest.
RequestLoad load_of(const Job& job, const Engine& engine, const Account& account);

}  // namespace headroom::engine
