// One value per replica: where such values come from, what is done with them inside of replicas,
// and how they become one again.

#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

int main() {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto dataset = data::from_tensor_slices(Tensor({5.f, 6.f, 7.f, 8.f})).batch(2);

  std::cout << "a dataset's elements, doubled by each replica\n";
  for (auto x : strategy.distribute_dataset(dataset)) {
    std::cout << x << '\n';
    std::cout << strategy.run([](Tensor part) { return part * 2.0; }, x) << '\n';
  }

  std::cout << "what a function returns\n";
  auto ids = strategy.run([] { return get_replica_context()->replica_id_in_sync_group(); });
  std::cout << ids << '\n';
  std::cout << "sum " << strategy.reduce(ReduceOp::Sum, ids) << '\n';

  std::cout << "sum over all rows of all replicas\n";
  auto dist = strategy.distribute_dataset(dataset);
  auto it = dist.begin();
  std::cout << strategy.reduce(ReduceOp::Sum, *it, /*axis=*/0) << '\n';

  std::cout << "one after the other\n";
  auto values = strategy.distribute_values_from_function([](ValueContext) {
    return Tensor({{1}, {2}});
  });
  std::cout << strategy.gather(values, /*axis=*/0) << '\n';

  std::cout << "inside of the replicas\n";
  auto sums = strategy.run(
      [](Tensor part) { return get_replica_context()->all_reduce(ReduceOp::Sum, part); }, *it);
  std::cout << sums << '\n';
}
