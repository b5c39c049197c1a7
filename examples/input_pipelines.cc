// Two ways to feed replicas: a dataset of global batches, which the strategy cuts, and a function
// that makes each input pipeline itself.

#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

int main() {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});

  std::cout << "cut by the strategy\n";
  for (auto x : strategy.distribute_dataset(data::range(6).batch(4))) {
    std::cout << x << " rows of all replicas: " << x.global_sample_count() << '\n';
  }

  std::cout << "made by a function\n";
  auto dist = strategy.distribute_datasets_from_function([](const InputContext& input) {
    int64_t batch = input.get_per_replica_batch_size(4);
    return data::range(8).batch(4).unbatch().batch(batch).prefetch(2);
  });
  for (auto x : dist) std::cout << x << '\n';
}
