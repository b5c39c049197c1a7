// distribute_dataset() takes batches of the global size. It cuts each into a part for each replica;
// a replica that gets nothing of a batch gets an empty part.

#include <cohort/cohort.h>

#include <iostream>

#include "lists.h"
using namespace cohort;

// Prints what each replica gets, step by step.
void print_parts(Strategy& strategy, const data::Dataset& dataset) {
  std::vector<std::string> parts(static_cast<size_t>(strategy.num_replicas_in_sync()));
  for (auto x : strategy.distribute_dataset(dataset)) {
    for (size_t replica = 0; replica < parts.size(); ++replica) {
      parts[replica] +=
          (parts[replica].empty() ? "" : ", ") + to_list(x[replica].tensor().to_vector<int64_t>());
    }
  }
  std::cout << dataset << ", replicas: " << parts.size() << '\n';
  for (size_t replica = 0; replica < parts.size(); ++replica) {
    std::cout << "  replica " << replica + 1 << ": " << parts[replica] << '\n';
  }
}

int main() {
  MirroredStrategy two({"CPU:0", "CPU:1"});
  MirroredStrategy three({"CPU:0", "CPU:1", "CPU:2"});
  print_parts(two, data::range(10).batch(4, {.drop_remainder = false}));
  print_parts(three, data::range(8).batch(4));
  print_parts(three, data::range(10).batch(5));
}
