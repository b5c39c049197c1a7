// Where code can find itself: outside of everything, in a strategy's scope, in a replica, and in a
// function that the replicas run together.

#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

void say_where(const char* place) {
  std::cout << place << ": a strategy " << has_strategy() << ", cross-replica "
            << in_cross_replica_context() << ", in a replica " << (get_replica_context() != nullptr)
            << '\n';
}

int main() {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  say_where("outside");
  auto scope = strategy.scope();
  say_where("scope  ");

  auto step = [](Tensor x) {
    ReplicaContext& replica = *get_replica_context();
    Tensor own = x + replica.replica_id_in_sync_group();
    // Runs once, with what all replicas brought.
    Tensor sum = replica.merge_call(
        [](Strategy& all, PerReplica<Tensor> values) {
          say_where("merge  ");
          return all.reduce(ReduceOp::Sum, values);
        },
        own);
    return sum * 10 + own;
  };
  std::cout << strategy.run(step, Tensor(5)) << '\n';
}
