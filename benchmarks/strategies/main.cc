// Strategies in one process: all-reduces beside the least that any program would have to do, what
// single calls cost, and training on two devices beside one and beside PyTorch's.
//
//   bench_strategies [all-reduce] [calls] [training] [ddp]     all of them when none is named

#include <ATen/Parallel.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "parts.h"

int main(int argc, char** argv) {
  using namespace cohort::bench;  // NOLINT: a program
  at::set_num_threads(1);
  const std::map<std::string, void (*)()> parts = {{"all-reduce", all_reduces},
                                                   {"calls", single_calls},
                                                   {"training", training},
                                                   {"ddp", training_beside_ddp}};
  std::vector<std::string> names(argv + 1, argv + argc);
  if (names.empty()) names = {"all-reduce", "calls", "training", "ddp"};
  for (const std::string& name : names) {
    const auto part = parts.find(name);
    if (part == parts.end()) {
      std::fprintf(stderr, "there is no part '%s'\n", name.c_str());
      return EXIT_FAILURE;
    }
    part->second();
  }
}
