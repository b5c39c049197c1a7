// From the command to the first step of all tasks.

#include "launch/figures.h"
#include "launch/launch.h"
#include "launch/parts.h"
#include "own_path.h"

namespace cohort::bench {
namespace {

constexpr int kLaunches = 5;

using Clock = std::chrono::steady_clock;

// When the tasks had done it, by what they say; all of one machine have the same clock.
std::vector<Clock::time_point> first_steps_in(const std::string& output) {
  const std::string said = "first step at ";
  std::vector<Clock::time_point> times;
  for (size_t at = output.find(said); at != std::string::npos; at = output.find(said, at + 1)) {
    const std::chrono::nanoseconds time(std::stoll(output.substr(at + said.size())));
    times.emplace_back(time);
  }
  return times;
}

double seconds_to_first_step(int tasks) {
  const test::LaunchDirectory directory;
  const Clock::time_point begin = Clock::now();
  const test::Launched run = test::launch({"-n", std::to_string(tasks), own_path(), "task"});
  const std::vector<Clock::time_point> times = first_steps_in(run.output);
  if (run.code != 0 || times.size() != static_cast<size_t>(tasks)) {
    throw Error(Code::Unavailable, "not all tasks did a step:\n" + run.output);
  }
  return std::chrono::duration<double>(*std::max_element(times.begin(), times.end()) - begin)
      .count();
}

void print_first_step(int tasks, double limit) {
  std::vector<double> seconds;
  for (int i = 0; i < kLaunches; ++i) seconds.push_back(seconds_to_first_step(tasks));
  print_figure("cohort run -n " + std::to_string(tasks) + " to the first step", median(seconds),
               "s", limit);
  const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
  std::printf("  %d launches took %.2f to %.2f s\n", kLaunches, *least, *most);
}

}  // namespace

void first_steps() {
  print_first_step(4, 3);
  print_first_step(16, 10);
}

}  // namespace cohort::bench
