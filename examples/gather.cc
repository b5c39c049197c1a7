// All replicas' values, one after the other, as one tensor.

#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

int main() {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});

  std::cout << "values of a function\n";
  auto distributed_values = strategy.distribute_values_from_function([](ValueContext) {
    return identity(Tensor({{1}, {2}}));
  });
  std::cout << strategy.gather(distributed_values, /*axis=*/0) << '\n';

  std::cout << "the copies of a variable\n";
  auto scope = strategy.scope();
  Variable variable({{1}, {2}});
  std::cout << strategy.gather(variable, /*axis=*/0) << '\n';
}
