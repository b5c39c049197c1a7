// Input pipelines beside torch's DataLoader, loops written by hand, and cat.
// Columns: ours, theirs, ours / theirs, what is aimed at.

#include <ATen/Parallel.h>
#include <unistd.h>

#include <filesystem>

#include "parts.h"

// The parts that the arguments name; without arguments all.
int main(int count, char** names) {
  using namespace cohort::bench;  // NOLINT: a program
  at::set_num_threads(1);
  const std::string directory = "/tmp/cohort_bench_" + std::to_string(::getpid());
  std::filesystem::create_directory(directory);
  const std::pair<std::string, std::function<void()>> parts[] = {
      {"pipelines", pipelines},
      {"tfrecords", [&] { tfrecords(directory); }},
      {"idx", [&] { idx(directory); }},
      {"csv", [&] { csv(directory); }},
      {"memory", [&] { memory(directory); }}};
  for (const auto& [name, part] : parts) {
    if (count == 1 || std::find(names + 1, names + count, name) != names + count) part();
  }
  std::filesystem::remove_all(directory);
}
