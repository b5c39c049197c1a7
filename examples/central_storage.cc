// One copy of every variable, on one device; the replicas on two others read it and send it what
// they want to add.

#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

int main() {
  CentralStorageStrategy strategy({.compute_devices = {"CPU:0", "CPU:1"}});
  auto scope = strategy.scope();
  Variable total(0.f, {.name = "total", .aggregation = VariableAggregation::Sum});

  auto add_mean = [&](Tensor x) { return total.assign_add(mean(x)); };
  const auto numbers = data::from_tensor_slices(Tensor({1.f, 2.f, 3.f, 4.f, 5.f, 6.f, 7.f, 8.f}));
  for (auto batch : strategy.distribute_dataset(numbers.batch(4))) {
    std::cout << strategy.run(add_mean, batch) << '\n';
  }
  std::cout << total << '\n';
}
