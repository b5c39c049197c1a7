#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cluster/link.h"
#include "graph/partition.h"

namespace cohort::internal {

// One signature of a session, as its master drives it: which tasks take part, and which feeds and
// fetches are whose. Constant once the tasks have registered their plans.
struct MasterPlan {
  struct Task {
    std::string name;
    Link::Pointer link = {};
    std::vector<size_t> feeds = {};  // positions in the request, in the task's order
    std::vector<size_t> fetches = {};
    RegisterPlan message = {};  // what the task is to know; empty once it does
  };
  uint64_t id = 0;
  size_t num_feeds = 0;
  size_t num_fetches = 0;
  bool draws = false;  // random numbers, so that its runs are counted
  std::vector<Task> tasks = {};
};

// Groups the parts of a graph that was cut by task and says who sends what to whom. `own_task`
// comes last.
MasterPlan make_master_plan(uint64_t id, std::vector<Partition> parts, const RunRequest& request,
                            const std::string& own_task);

}  // namespace cohort::internal
