#include <cstdint>

#include "base/raise.h"
#include "cohort/scheduler_resolvers.h"

namespace cohort {
namespace {

// The jobs as asked for; without any, all tasks are workers. As many tasks as there are.
std::map<std::string, int> checked_jobs(std::map<std::string, int> jobs, size_t tasks,
                                        const char* operation) {
  if (jobs.empty()) jobs["worker"] = static_cast<int>(tasks);
  int64_t wanted = 0;
  for (const auto& [name, count] : jobs) {
    if (count < 0) {
      internal::raise(Code::InvalidArgument, "[{}] job '{}' cannot have {} tasks", operation, name,
                      count);
    }
    wanted += count;
  }
  if (wanted != static_cast<int64_t>(tasks)) {
    internal::raise(Code::FailedPrecondition,
                    "[{}] the jobs need {} tasks, but {} were started; make the two agree",
                    operation, wanted, tasks);
  }
  return jobs;
}

}  // namespace

void RankedClusterResolver::deal(Ranks ranks) {
  const size_t tasks = ranks.addresses.size();
  if (ranks.rank && static_cast<size_t>(*ranks.rank) >= tasks) {
    internal::raise(Code::FailedPrecondition, "[{}] this is process {}, but there are only {}",
                    ranks.operation, *ranks.rank, tasks);
  }
  int next = 0;
  for (const auto& [job, count] : checked_jobs(std::move(ranks.jobs), tasks, ranks.operation)) {
    const auto first = ranks.addresses.begin() + next;
    jobs_.push_back({job, TaskList(first, first + count)});
    if (ranks.rank && *ranks.rank >= next && *ranks.rank < next + count) {
      own_type_ = job;
      own_id_ = *ranks.rank - next;
    }
    next += count;
  }
}

ClusterSpec RankedClusterResolver::cluster_spec() const { return jobs_; }

std::optional<std::string> RankedClusterResolver::task_type() const {
  return task_type_ ? task_type_ : own_type_;
}

std::optional<int> RankedClusterResolver::task_id() const { return task_id_ ? task_id_ : own_id_; }

}  // namespace cohort
