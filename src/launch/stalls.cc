#include "launch/stalls.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "launch/task_output.h"

namespace cohort::cli {
namespace {

using internal::ActivityWait;
using internal::WaitKind;
using Tasks = std::set<size_t>;

// Which task waits for which, by the numbers of the tasks.
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
      if (is_server(task) && waits_for_any_task(waits[task])) add_idle_workers(task);
    }
  }

  bool waits(size_t task) const { return !for_all_[task].empty() || !strangers_[task].empty(); }
  // Whether the task waits at a queue of its own and no task waits for it, which may be normal.
  bool is_idle_server(size_t task) const {
    const auto is_awaited = [&](const Tasks& others) { return others.contains(task); };
    return at_queue_.contains(task) && !std::ranges::any_of(for_all_, is_awaited);
  }
  const std::set<std::string>& strangers(size_t task) const { return strangers_[task]; }

  // The tasks that the task waits for, directly or through others.
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

  // The tasks that do not wait; else the tasks whose turn it is, although they wait for others to
  // finish; else none.
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
  static bool waits_for_any_task(const std::vector<ActivityWait>& waits) {
    return std::ranges::any_of(waits, [](const ActivityWait& wait) {
      return wait.whom == std::vector<std::string>{internal::kAnyTask};
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
      if (name == internal::kAnyTask) continue;
      const auto found = std::ranges::find_if(tasks_, [&](const NamedTask& known) {
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

// The wait that says most: the longest wait for a tensor, or else the longest.
Stall::Waiter waiter_of(size_t task, const std::vector<ActivityWait>& waits) {
  const auto less = [](const ActivityWait& a, const ActivityWait& b) {
    const bool a_is_tensor = a.kind == WaitKind::Tensor, b_is_tensor = b.kind == WaitKind::Tensor;
    return a_is_tensor != b_is_tensor ? b_is_tensor : a.seconds < b.seconds;
  };
  const auto most = std::ranges::max_element(waits, less);
  return {.task = task, .what = most->what, .seconds = most->seconds};
}

constexpr auto kPlaceLimit = std::chrono::seconds(3);  // then the report goes without places
constexpr size_t kMaxListedFrames = 8;
constexpr double kLongInput = 0.5;  // seconds

double longest_wait(const Stall& stall) {
  return std::ranges::max(stall.waiting, {}, &Stall::Waiter::seconds).seconds;
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

StallWatch::StallWatch(std::vector<NamedTask> tasks, Events events)
    : known_(std::move(tasks)), events_(std::move(events)), tasks_(known_.size()) {}

void StallWatch::ended(size_t task) {
  tasks_.at(task) = {};
  tasks_[task].runs = false;
}

void StallWatch::runs(size_t task) {
  if (!tasks_.at(task).runs) tasks_[task] = {};
}

void StallWatch::look(Clock::time_point now) {
  std::vector<std::vector<ActivityWait>> waits;
  for (const Task& task : tasks_) waits.push_back(task.waits);
  std::set<Key> seen;
  for (const Stall& stall : find_stalls(known_, waits)) {
    const Key key{stall.guilty, stall.strangers};
    seen.insert(key);
    update(reported_[key], stall, now);
  }
  for (auto at = reported_.begin(); at != reported_.end();) {
    if (seen.contains(at->first)) {
      ++at;
      continue;
    }
    say_over(at->second);
    at = reported_.erase(at);
  }
}

void StallWatch::update(ReportedStall& reported, const Stall& stall, Clock::time_point now) {
  reported.stall = stall;
  reported.longest = longest_wait(stall);
  const bool is_due = !reported.again_after || reported.longest >= *reported.again_after;
  if (!is_due) return;
  if (reported.asked_at == Clock::time_point{}) ask_places(reported, now);
  if (!all_places_found(stall) && now < reported.asked_at + kPlaceLimit) return;
  events_.say(text_of(stall));
  reported.again_after = 2 * reported.longest;
  reported.asked_at = {};
}

void StallWatch::ask_places(ReportedStall& reported, Clock::time_point now) {
  reported.asked_at = now;
  for (const size_t task : reported.stall.guilty) {
    tasks_[task].place.reset();
    if (tasks_[task].runs) events_.ask_place(task);
  }
}

bool StallWatch::all_places_found(const Stall& stall) const {
  return std::ranges::all_of(stall.guilty, [&](size_t task) {
    return tasks_[task].place.has_value() || !tasks_[task].runs;
  });
}

void StallWatch::say_over(const ReportedStall& reported) const {
  if (!reported.again_after) return;
  const bool any_runs =
      std::ranges::any_of(reported.stall.guilty, [&](size_t task) { return tasks_[task].runs; });
  if (any_runs) {
    events_.say(fmt::format("no task waits for {} any more, after {:.1f} s",
                            guilty_names(reported.stall), reported.longest));
  }
}

std::string StallWatch::names_of(const std::vector<size_t>& tasks) const {
  std::vector<std::string> names;
  for (const size_t task : tasks) names.push_back(known_[task].label);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string StallWatch::guilty_names(const Stall& stall) const {
  std::string names = names_of(stall.guilty);
  for (const std::string& stranger : stall.strangers) {
    names += (names.empty() ? "" : ", ") + stranger + ", which is not a task of this run";
  }
  return names;
}

std::string StallWatch::who_waits(const Stall& stall) const {
  std::vector<size_t> waiting;
  for (const Stall::Waiter& each : stall.waiting) waiting.push_back(each.task);
  size_t others = 0;
  for (size_t task = 0; task < tasks_.size(); ++task) {
    const bool is_guilty = std::ranges::find(stall.guilty, task) != stall.guilty.end();
    if (tasks_[task].runs && !is_guilty) ++others;
  }
  if (!stall.circle && waiting.size() > 1 && waiting.size() == others) {
    return "all other tasks wait";
  }
  return names_of(waiting) + (waiting.size() == 1 ? " waits" : " wait");
}

std::string StallWatch::place_of(size_t task) const {
  const Task& guilty = tasks_[task];
  if (!guilty.runs) return fmt::format("  {} has ended\n", known_[task].label);
  std::string text = "  " + known_[task].label;
  const double input = guilty.place ? guilty.place->input_seconds : 0;
  if (input > kLongInput)
    text += fmt::format(" has been getting its input for {:.1f} s and", input);
  text += " " + (guilty.place ? guilty.place->doing : "does not say where it is") + "\n";
  for (const internal::ActivityWait& wait : guilty.waits) {
    if (wait.whom != std::vector<std::string>{internal::kAnyTask}) continue;
    text += fmt::format("    {}, for {:.1f} s\n", wait.what, wait.seconds);
  }
  return guilty.place ? text + frame_lines(guilty.place->frames, kMaxListedFrames) : text;
}

std::string StallWatch::text_of(const Stall& stall) const {
  std::string text =
      fmt::format("{} for {}, for {:.1f} s\n", who_waits(stall),
                  stall.circle ? "each other" : guilty_names(stall), longest_wait(stall));
  std::map<std::string, std::vector<size_t>> by_what;
  for (const Stall::Waiter& each : stall.waiting) by_what[each.what].push_back(each.task);
  for (const auto& [what, tasks] : by_what) {
    text += fmt::format("  {}: in {}\n", names_of(tasks), what);
  }
  for (const size_t task : stall.guilty) text += place_of(task);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace cohort::cli
