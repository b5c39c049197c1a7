// Which strategy and which replica the code belongs to: outside every scope, in a strategy's scope,
// in a replica, and in a function that the replicas run together.

#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

void print_contexts(const char* place) {
  std::cout << place << "\n  get_strategy(): " << get_strategy()
            << "\n  has_strategy(): " << has_strategy()
            << "\n  in_cross_replica_context(): " << in_cross_replica_context()
            << "\n  get_replica_context(): ";
  if (ReplicaContext* context = get_replica_context()) {
    std::cout << *context << '\n';
  } else {
    std::cout << "none\n";
  }
}

int main() {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  print_contexts("outside every scope, under the default strategy");
  {
    auto scope = strategy.scope();
    print_contexts("in the strategy's scope");
  }

  std::cout << "in the replicas\n";
  std::cout << strategy.run([] { return in_cross_replica_context(); }) << '\n';
  auto f = [] { return get_replica_context()->to_string(); };
  std::cout << strategy.run(f) << '\n';
  strategy.run([] {
    get_replica_context()->merge_call([](Strategy&) { print_contexts("in a merge function"); });
  });

  set_strategy(&strategy);  // a scope that no block ends
  print_contexts("after set_strategy()");
  set_strategy(nullptr);
  std::cout << "has_strategy(): " << has_strategy() << '\n';
}
