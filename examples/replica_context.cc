// What code in a replica knows, and what it does together with the other replicas.

#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

int main() {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  auto f = [] {
    ReplicaContext* replica_context = get_replica_context();
    return replica_context->replica_id_in_sync_group();
  };
  std::cout << "replica_id_in_sync_group\n" << strategy.run(f) << '\n';
  std::cout << "num_replicas_in_sync\n"
            << strategy.run([] { return get_replica_context()->num_replicas_in_sync(); }) << '\n';
  std::cout << "strategy\n"
            << strategy.run([] { return get_replica_context()->strategy().to_string(); }) << '\n';

  auto values = strategy.distribute_values_from_function(
      [](ValueContext context) { return Tensor({context.replica_id_in_sync_group + 1}); });
  std::cout << "all_reduce\n"
            << strategy.run(
                   [](Tensor x) { return get_replica_context()->all_reduce(ReduceOp::Sum, x); },
                   values)
            << '\n';
  std::cout << "all_gather\n"
            << strategy.run(
                   [](Tensor x) { return get_replica_context()->all_gather(x, /*axis=*/0); },
                   values)
            << '\n';

  // The function runs once, with the values of all replicas, and each replica gets the result.
  auto merge_fn = [](Strategy& all, PerReplica<Tensor> parts) {
    return all.reduce(ReduceOp::Mean, parts);
  };
  std::cout << "merge_call\n"
            << strategy.run(
                   [&](Tensor x) { return get_replica_context()->merge_call(merge_fn, x) * x; },
                   values)
            << '\n';
}
