#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cohort/credentials.h"
#include "cohort/error.h"
#include "cohort/server.h"
#include "rpc/task_status.h"

namespace cohort::cli {

// A task to ask, and what it answered.
struct AskedTask {
  std::string label = {};  // "worker:0"; empty when only its address is known
  std::string address = {};
  Status problem = {};  // why there is no answer
  internal::TaskStatus status = {};
  ServerStatus server = {};     // when it is a server
  std::string progress = {};    // of its training, where its launcher knows
  double clock_difference = 0;  // seconds by which its clock is ahead of this one
};

// Asks all of them at the same time, each once, within the limit.
void ask_tasks(std::vector<AskedTask>& tasks, const Credentials& credentials,
               std::chrono::milliseconds limit);

}  // namespace cohort::cli
