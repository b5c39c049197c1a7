#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/stalls.h"
#include "cli/task_place.h"

namespace cohort::cli {

// Tells the person in front of a run who is waited for, since when, in what, and what that task
// does instead; again when twice the time has passed, and when it goes on. One thread.
class StallWatch {
 public:
  using Clock = std::chrono::steady_clock;
  struct Events {
    std::function<void(size_t task)> ask_place;  // answered by place_found, or not
    std::function<void(const std::string& text)> say;
  };
  StallWatch(std::vector<NamedTask> tasks, Events events);

  // What the task waits for now.
  void heard(size_t task, const std::vector<internal::ActivityWait>& waits);
  void place_found(size_t task, const TaskPlace& place);
  // All tasks run at the beginning.
  void ended(size_t task);
  void runs(size_t task);  // also again
  // Call it about once a second, and after the others.
  void look(Clock::time_point now = Clock::now());

 private:
  struct Task {
    bool runs = true;
    std::vector<internal::ActivityWait> waits = {};
    std::optional<TaskPlace> place = std::nullopt;
  };
  // A stall that is being told.
  struct Told {
    Stall stall = {};
    Clock::time_point asked_at = {};                   // nothing is being asked: none
    std::optional<double> again_after = std::nullopt;  // seconds of waiting; nothing: not said yet
    double longest = 0;
  };
  using Key = std::pair<std::vector<size_t>, std::vector<std::string>>;

  std::vector<Stall> find() const;
  void update(Told& told, const Stall& stall, Clock::time_point now);
  void ask_places(Told& told, Clock::time_point now);
  bool all_places_found(const Stall& stall) const;
  void say_over(const Told& told) const;
  std::string text_of(const Stall& stall) const;
  std::string names_of(const std::vector<size_t>& tasks) const;
  std::string guilty_names(const Stall& stall) const;
  std::string who_waits(const Stall& stall) const;
  std::string place_of(size_t task) const;

  const std::vector<NamedTask> known_;
  const Events events_;
  std::vector<Task> tasks_;
  std::map<Key, Told> told_;
};

}  // namespace cohort::cli
