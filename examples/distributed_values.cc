// One value per replica: where such values come from, what the replicas do with them, and how they
// become one value again.

#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

int main() {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});

  std::cout << "from a distributed dataset\n";
  auto dataset = data::from_tensor_slices(Tensor({5.f, 6.f, 7.f, 8.f})).batch(2);
  auto dataset_iterator = strategy.distribute_dataset(dataset).iterator();
  auto distributed_values = dataset_iterator.next();
  std::cout << distributed_values << '\n';

  std::cout << "returned by run()\n";
  auto replica_id = [] { return get_replica_context()->replica_id_in_sync_group(); };
  std::cout << strategy.run(replica_id) << '\n';

  std::cout << "as the input of run()\n";
  auto f = [](Tensor x) { return x * 2.0; };
  std::cout << strategy.run(f, distributed_values) << '\n';

  std::cout << "reduced\n";
  std::cout << strategy.reduce(ReduceOp::Sum, distributed_values, /*axis=*/0) << '\n';

  std::cout << "each replica's own\n";
  for (const Tensor& own : strategy.local_results(strategy.run(f, distributed_values)))
    std::cout << own << '\n';
}
