// A variable that is made in a strategy's scope has a copy on every device. What replicas write to
// it is made one value first, as its aggregation says.

#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

int main() {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  auto scope = strategy.scope();
  Variable mirrored_variable(1.f);
  std::cout << mirrored_variable << '\n';
  scope.close();

  Variable regular_variable(1.f);
  std::cout << regular_variable << '\n';

  scope.enter();
  Variable total(0.f, {.name = "total", .aggregation = VariableAggregation::Sum});
  Variable own(0.f, {.name = "own",
                     .synchronization = VariableSynchronization::OnRead,
                     .aggregation = VariableAggregation::Mean});
  strategy.run([&] {
    Tensor number(get_replica_context()->replica_id_in_sync_group() + 1.f);
    total.assign_add(number);  // 1 + 2, to both copies
    own.assign_add(number);    // to the replica's own copy
  });
  std::cout << total << '\n' << own << '\n';
  std::cout << "read outside the replicas: " << own.read_value() << '\n';
}
