#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/frameworks/read_job.h"

namespace headroom::cli {

/// Datasets that a run names as what it trains on, by their folders' or files' names in small letters:
/// `$HOME/data/gsm8k/train.parquet` is `gsm8k`, `openai/gsm8k` too. From the framework's own key
/// (`data.train_files`, `prompt_data`, `dataset_name` …), as written where a part of it is not known.
std::vector<std::string> training_data(const ReadJob& read);

/// Lengths of the run's sequences, where all datasets that it trains on are known (configs/lengths): prompts of
/// their mean length; responses too, where the model is one whose answers are known, which is a chat model of a
/// billion parameters or more that does not think first, or one that the file names (`models`, by a part of the name).
/// Else responses are as long as their cap. Several datasets
/// count by their sizes. Nothing where a dataset is not known, or a cap lies below the mean.
std::optional<Lengths> lengths_of_data(const ReadJob& read);

}  // namespace headroom::cli
