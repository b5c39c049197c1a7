#include "cli/stall_watch.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "cli/report.h"

namespace cohort::cli {
namespace {

constexpr auto kPlaceLimit = std::chrono::seconds(3);  // then it is said without
constexpr size_t kMaxListedFrames = 8;
constexpr double kLongInput = 0.5;  // seconds

double longest_wait(const Stall& stall) {
  double longest = 0;
  for (const Stall::Waiter& each : stall.waiting) longest = std::max(longest, each.seconds);
  return longest;
}

}  // namespace

StallWatch::StallWatch(std::vector<NamedTask> tasks, Events events)
    : known_(std::move(tasks)), events_(std::move(events)), tasks_(known_.size()) {}

void StallWatch::heard(size_t task, const std::vector<internal::ActivityWait>& waits) {
  tasks_.at(task).waits = waits;
}

void StallWatch::place_found(size_t task, const TaskPlace& place) { tasks_.at(task).place = place; }

void StallWatch::ended(size_t task) {
  tasks_.at(task) = {};
  tasks_[task].runs = false;
}

void StallWatch::runs(size_t task) {
  if (!tasks_.at(task).runs) tasks_[task] = {};
}

std::vector<Stall> StallWatch::find() const {
  std::vector<std::vector<internal::ActivityWait>> waits;
  for (const Task& task : tasks_) waits.push_back(task.waits);
  return find_stalls(known_, waits);
}

void StallWatch::look(Clock::time_point now) {
  std::set<Key> seen;
  for (const Stall& stall : find()) {
    const Key key{stall.guilty, stall.strangers};
    seen.insert(key);
    update(told_[key], stall, now);
  }
  for (auto at = told_.begin(); at != told_.end();) {
    if (seen.contains(at->first)) {
      ++at;
      continue;
    }
    say_over(at->second);
    at = told_.erase(at);
  }
}

void StallWatch::update(Told& told, const Stall& stall, Clock::time_point now) {
  told.stall = stall;
  told.longest = longest_wait(stall);
  const bool is_due = !told.again_after || told.longest >= *told.again_after;
  if (!is_due) return;
  if (told.asked_at == Clock::time_point{}) ask_places(told, now);
  if (!all_places_found(stall) && now < told.asked_at + kPlaceLimit) return;
  events_.say(text_of(stall));
  told.again_after = 2 * told.longest;
  told.asked_at = {};
}

void StallWatch::ask_places(Told& told, Clock::time_point now) {
  told.asked_at = now;
  for (const size_t task : told.stall.guilty) {
    tasks_[task].place.reset();
    if (tasks_[task].runs) events_.ask_place(task);
  }
}

bool StallWatch::all_places_found(const Stall& stall) const {
  return std::all_of(stall.guilty.begin(), stall.guilty.end(), [&](size_t task) {
    return tasks_[task].place.has_value() || !tasks_[task].runs;
  });
}

void StallWatch::say_over(const Told& told) const {
  if (!told.again_after) return;
  const bool any_runs = std::any_of(told.stall.guilty.begin(), told.stall.guilty.end(),
                                    [&](size_t task) { return tasks_[task].runs; });
  if (any_runs) {
    events_.say(fmt::format("nobody waits for {} any more, after {:.1f} s",
                            guilty_names(told.stall), told.longest));
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
    names += (names.empty() ? "" : ", ") + stranger + ", which is no task of this run";
  }
  return names;
}

std::string StallWatch::who_waits(const Stall& stall) const {
  std::vector<size_t> waiting;
  for (const Stall::Waiter& each : stall.waiting) waiting.push_back(each.task);
  if (stall.circle) return names_of(waiting) + (waiting.size() == 1 ? " waits" : " wait");
  size_t others = 0;
  for (size_t task = 0; task < tasks_.size(); ++task) {
    const bool is_guilty =
        std::find(stall.guilty.begin(), stall.guilty.end(), task) != stall.guilty.end();
    if (tasks_[task].runs && !is_guilty) ++others;
  }
  if (waiting.size() > 1 && waiting.size() == others) return "everybody waits";
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
    if (wait.whom != std::vector<std::string>{internal::kAnybody}) continue;
    text += fmt::format("    {}, for {:.1f} s\n", wait.what, wait.seconds);
  }
  if (!guilty.place) return text;
  const std::vector<std::string>& frames = guilty.place->frames;
  for (size_t i = 0; i < std::min(kMaxListedFrames, frames.size()); ++i) {
    text += fmt::format("    #{:<2} {}\n", i, shortened_frame(frames[i]));
  }
  if (frames.size() > kMaxListedFrames) {
    text += fmt::format("    ... {} more\n", frames.size() - kMaxListedFrames);
  }
  return text;
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
