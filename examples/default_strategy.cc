// Code that knows nothing of strategies runs as before, also where it calls functions that know of
// them: outside every scope the default strategy runs the code as its only replica.

#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

// A function of a library: subtracts the mean over the batches of all replicas.
Tensor center(const Tensor& x) {
  ReplicaContext* context = get_replica_context();
  return x - context->all_reduce(ReduceOp::Mean, mean(x));
}

// The model: ordinary code.
Tensor model_fn(const Tensor& x) { return center(x) * 10.f; }

int main() {
  std::cout << "without a strategy\n" << model_fn(Tensor({1.f, 2.f, 3.f, 6.f})) << '\n';

  std::cout << "in two replicas\n";
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  auto dataset = data::from_tensor_slices(Tensor({1.f, 2.f, 3.f, 6.f})).batch(4);
  for (auto x : strategy.distribute_dataset(dataset)) {
    std::cout << strategy.run(model_fn, x) << '\n';
  }
}
