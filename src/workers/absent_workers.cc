#include "workers/absent_workers.h"

#include <fmt/ranges.h>

#include "base/log.h"
#include "base/raise.h"

namespace cohort::internal {

AbsentWorkers::AbsentWorkers(const WorkerList& workers)
    : workers_(workers), next_log_(began_ + std::chrono::seconds(2)) {}

std::string AbsentWorkers::describe(const std::vector<int>& absent) const {
  std::vector<std::string> texts;
  for (const int id : absent) {
    const WorkerList::Worker& worker = workers_.workers[static_cast<size_t>(id)];
    const auto reason = reasons_.find(id);
    texts.push_back(fmt::format("{} at {}{}", worker.name, worker.address,
                                reason != reasons_.end() ? " (" + reason->second + ")" : ""));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

void AbsentWorkers::log_now_and_then(const std::vector<int>& absent) {
  const auto now = Clock::now();
  if (now >= began_ + stall_patience()) note(absent);
  if (now < next_log_) return;
  next_log_ = now + (next_log_ - began_);
  log_warning("[MultiWorkerMirroredStrategy] {} has waited {:.0f} s for {}", workers_.own().name,
              waited(), describe(absent));
}

void AbsentWorkers::note(const std::vector<int>& absent) {
  if (absent == noted_) return;
  std::vector<std::string> names;
  for (const int id : absent) names.push_back(workers_.workers[static_cast<size_t>(id)].name);
  // A leader that is there may itself wait for somebody.
  const WaitKind kind = workers_.self == 0 ? WaitKind::Tensor : WaitKind::Answer;
  note_ = WaitNote(kind, "the beginning of MultiWorkerMirroredStrategy", names, began_);
  noted_ = absent;
}

void AbsentWorkers::give_up(const std::vector<int>& absent) const {
  raise(Code::DeadlineExceeded,
        "[MultiWorkerMirroredStrategy] {}: {} did not come within {:.1f} s; start all workers of "
        "{}",
        workers_.own().name, describe(absent), waited(), workers_.cluster);
}

}  // namespace cohort::internal
