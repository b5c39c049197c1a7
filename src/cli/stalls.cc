#include "cli/stalls.h"

#include <algorithm>
#include <map>
#include <set>

namespace cohort::cli {
namespace {

using internal::ActivityWait;
using internal::WaitKind;
using Tasks = std::set<size_t>;

// Who waits for whom, by the tasks' numbers.
class WaitMap {
 public:
  WaitMap(const std::vector<NamedTask>& tasks, const std::vector<std::vector<ActivityWait>>& waits)
      : tasks_(tasks),
        for_tensors_(tasks.size()),
        for_all_(tasks.size()),
        strangers_(tasks.size()) {
    for (size_t task = 0; task < waits.size(); ++task) {
      for (const ActivityWait& wait : waits[task]) add(task, wait);
    }
    for (size_t task = 0; task < waits.size(); ++task) {
      if (is_server(task) && waits_for_anybody(waits[task])) add_idle_workers(task);
    }
  }

  bool waits(size_t task) const { return !for_all_[task].empty() || !strangers_[task].empty(); }
  // At a queue of its own, and nobody waits for it: which may be as it should be.
  bool is_idle_server(size_t task) const {
    const auto is_awaited = [&](const Tasks& others) { return others.contains(task); };
    return at_queue_.contains(task) && !std::any_of(for_all_.begin(), for_all_.end(), is_awaited);
  }
  const std::set<std::string>& strangers(size_t task) const { return strangers_[task]; }

  // Everybody whom the task waits for, and whom those wait for, and so on.
  Tasks reached_from(size_t task) const {
    Tasks reached;
    std::vector<size_t> open{task};
    while (!open.empty()) {
      const size_t at = open.back();
      open.pop_back();
      for (const size_t next : for_all_[at]) {
        if (reached.insert(next).second) open.push_back(next);
      }
    }
    return reached;
  }

  // Those of the tasks who do not wait; else those whose turn it is, though they wait for others to
  // be done; else nobody.
  Tasks idle_among(const Tasks& tasks) const {
    Tasks idle, on_turn;
    for (const size_t task : tasks) {
      if (!waits(task)) idle.insert(task);
      if (for_tensors_[task].empty() && strangers_[task].empty()) on_turn.insert(task);
    }
    return idle.empty() ? on_turn : idle;
  }

 private:
  bool is_server(size_t task) const { return tasks_[task].label.starts_with("ps:"); }
  static bool waits_for_anybody(const std::vector<ActivityWait>& waits) {
    return std::any_of(waits.begin(), waits.end(), [](const ActivityWait& wait) {
      return wait.whom == std::vector<std::string>{internal::kAnybody};
    });
  }
  void add_idle_workers(size_t task) {
    for (size_t other = 0; other < tasks_.size(); ++other) {
      if (is_server(other) || waits(other)) continue;
      for_all_[task].insert(other);
      for_tensors_[task].insert(other);
      at_queue_.insert(task);
    }
  }
  void add(size_t task, const ActivityWait& wait) {
    for (const std::string& name : wait.whom) {
      if (name == internal::kAnybody) continue;
      const auto found = std::find_if(tasks_.begin(), tasks_.end(), [&](const NamedTask& known) {
        return name == known.full_name || name == known.label || name == known.address;
      });
      if (found == tasks_.end()) {
        strangers_[task].insert(name);
        continue;
      }
      const auto other = static_cast<size_t>(found - tasks_.begin());
      if (other == task) continue;
      for_all_[task].insert(other);
      if (wait.kind == WaitKind::Tensor) for_tensors_[task].insert(other);
    }
  }

  const std::vector<NamedTask>& tasks_;
  std::vector<Tasks> for_tensors_;
  std::vector<Tasks> for_all_;
  std::vector<std::set<std::string>> strangers_;
  Tasks at_queue_;
};

// The wait that says most: the longest one for a tensor, else the longest.
Stall::Waiter waiter_of(size_t task, const std::vector<ActivityWait>& waits) {
  const auto less = [](const ActivityWait& a, const ActivityWait& b) {
    const bool a_tells = a.kind == WaitKind::Tensor, b_tells = b.kind == WaitKind::Tensor;
    return a_tells != b_tells ? b_tells : a.seconds < b.seconds;
  };
  const auto most = std::max_element(waits.begin(), waits.end(), less);
  return {.task = task, .what = most->what, .seconds = most->seconds};
}

}  // namespace

std::vector<Stall> find_stalls(const std::vector<NamedTask>& tasks,
                               const std::vector<std::vector<ActivityWait>>& waits) {
  const WaitMap who(tasks, waits);
  std::map<std::pair<Tasks, std::set<std::string>>, Stall> by_guilty;
  for (size_t task = 0; task < tasks.size(); ++task) {
    if (!who.waits(task) || who.is_idle_server(task)) continue;
    const Tasks reached = who.reached_from(task);
    std::set<std::string> strangers = who.strangers(task);
    for (const size_t each : reached) {
      strangers.insert(who.strangers(each).begin(), who.strangers(each).end());
    }
    const Tasks idle = who.idle_among(reached);
    const bool circle = idle.empty() && strangers.empty();
    const Tasks guilty = circle ? reached : idle;
    if (guilty.contains(task) && !circle) continue;
    Stall& stall = by_guilty[{guilty, strangers}];
    stall.guilty.assign(guilty.begin(), guilty.end());
    stall.strangers.assign(strangers.begin(), strangers.end());
    stall.circle = circle;
    stall.waiting.push_back(waiter_of(task, waits[task]));
  }
  std::vector<Stall> stalls;
  for (auto& [key, stall] : by_guilty) stalls.push_back(std::move(stall));
  return stalls;
}

}  // namespace cohort::cli
