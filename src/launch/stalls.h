#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/activity.h"
#include "launch/process_state.h"

namespace cohort::cli {

// The names by which a task of a run is known.
struct NamedTask {
  std::string label = {};      // "worker:0", for people
  std::string full_name = {};  // "/job:worker/replica:0/task:0"
  std::string address = {};
};

// Tasks that wait, and the tasks that they wait for in the end.
struct Stall {
  struct Waiter {
    size_t task = 0;
    std::string what = {};
    double seconds = 0;
  };
  std::vector<size_t> guilty = {};          // tasks that do not wait themselves
  std::vector<std::string> strangers = {};  // awaited peers outside the run
  bool circle = false;                      // the guilty tasks wait for each other
  std::vector<Waiter> waiting = {};
};

// Follows the waits from each task that has waited for long: worker:0 waits for a parameter server,
// which waits for worker:1. A parameter server that waits at a queue waits for the workers that do
// not wait. Returns one stall for each set of guilty tasks. `waits` has an entry for each task.
std::vector<Stall> find_stalls(const std::vector<NamedTask>& tasks,
                               const std::vector<std::vector<internal::ActivityWait>>& waits);

// Reports to the user which task the other tasks wait for, how long, in which call, and what the
// awaited task does meanwhile. Reports a stall again when it has lasted twice as long, and reports
// when the run goes on. Not thread-safe.
class StallWatch {
 public:
  using Clock = std::chrono::steady_clock;
  struct Events {
    std::function<void(size_t task)> ask_place;  // may be answered by place_found()
    std::function<void(const std::string& text)> say;
  };
  StallWatch(std::vector<NamedTask> tasks, Events events);

  // The current long waits of the task.
  void set_waits(size_t task, const std::vector<internal::ActivityWait>& waits) {
    tasks_.at(task).waits = waits;
  }
  void place_found(size_t task, const TaskPlace& place) { tasks_.at(task).place = place; }
  // All tasks run at the beginning.
  void ended(size_t task);
  void runs(size_t task);  // also after a restart
  // Call it about once a second, and after place_found().
  void look(Clock::time_point now = Clock::now());

 private:
  struct Task {
    bool runs = true;
    std::vector<internal::ActivityWait> waits = {};
    std::optional<TaskPlace> place = std::nullopt;
  };
  struct ReportedStall {
    Stall stall = {};
    Clock::time_point asked_at = {};  // zero: no places were asked for
    std::optional<double> again_after =
        std::nullopt;  // seconds of waiting; empty: not reported yet
    double longest = 0;
  };
  using Key = std::pair<std::vector<size_t>, std::vector<std::string>>;

  void update(ReportedStall& reported, const Stall& stall, Clock::time_point now);
  void ask_places(ReportedStall& reported, Clock::time_point now);
  bool all_places_found(const Stall& stall) const;
  void say_over(const ReportedStall& reported) const;
  std::string text_of(const Stall& stall) const;
  std::string names_of(const std::vector<size_t>& tasks) const;
  std::string guilty_names(const Stall& stall) const;
  std::string who_waits(const Stall& stall) const;
  std::string place_of(size_t task) const;

  const std::vector<NamedTask> known_;
  const Events events_;
  std::vector<Task> tasks_;
  std::map<Key, ReportedStall> reported_;
};

}  // namespace cohort::cli
