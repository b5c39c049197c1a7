// The words of the first distributed TensorFlow programs: a tower is a replica.

#include <cohort/cohort.h>
#include <cohort/legacy.h>

#include <iostream>
using namespace cohort;

int main() {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto dataset = data::from_tensor_slices(Tensor({5.f, 6.f, 7.f, 8.f})).batch(2);

  auto scope = strategy.scope();
  auto iterator = strategy.distribute_dataset(dataset).iterator();
  auto results = legacy::call_for_each_tower(
      strategy, [](Tensor x) { return x * legacy::get_tower_context()->num_towers(); },
      iterator.next());
  for (Tensor t : legacy::unwrap(strategy, results)) std::cout << t << '\n';
  legacy::group(legacy::unwrap(strategy, results));
}
