// What `cohort run` costs: until the first step, while nothing happens, and in every step.
//
//   bench_launch            all of it
//   bench_launch first      one part: first, idle, trace, watcher

#include <cohort/cohort.h>

#include <cstdio>
#include <vector>

#include "launch/parts.h"

namespace cohort::bench {
namespace {

struct Part {
  const char* name;
  void (*measure)();
};

constexpr Part kParts[] = {{"first", first_steps},
                           {"idle", idle_launcher},
                           {"trace", traced_steps},
                           {"watcher", watched_steps}};

int measure(const std::string& wanted) {
  bool found = false;
  for (const Part& part : kParts) {
    if (!wanted.empty() && wanted != part.name) continue;
    found = true;
    part.measure();
  }
  if (!found) std::fprintf(stderr, "bench_launch: its parts are first, idle, trace and watcher\n");
  return found ? 0 : 2;
}

}  // namespace
}  // namespace cohort::bench

int main(int argc, char** argv) try {
  using namespace cohort::bench;  // NOLINT: a program
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || words[0] != "task") return measure(words.empty() ? "" : words[0]);
  be_task(words.size() > 1 ? words[1] : "");
} catch (const cohort::Error& error) {
  std::fprintf(stderr, "bench_launch: %s\n", error.what());
  return 1;
}
