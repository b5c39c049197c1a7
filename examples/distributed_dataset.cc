// A dataset that gives each replica its part of every batch.

#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

int main() {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  auto dataset = data::from_tensor_slices(Tensor({5.f, 6.f, 7.f, 8.f})).batch(2);
  auto dist_dataset = strategy.distribute_dataset(dataset);
  for (auto x : dist_dataset) std::cout << x << '\n';

  std::cout << "one step, from an iterator\n";
  auto dataset_iterator = dist_dataset.iterator();
  std::cout << dataset_iterator.next() << '\n';

  std::cout << "each replica doubles its part\n";
  auto f = [](Tensor x) { return x * 2.0; };
  for (auto x : dist_dataset) std::cout << strategy.run(f, x) << '\n';
}
