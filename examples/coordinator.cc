// Functions that a coordinator sends to the workers of a cluster. TF_CONFIG says which task a
// process is:
//
//   cohort run --ps 1 --workers 1 --chief coordinator

#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

// Each worker has a dataset of its own. A function takes an element there.
void take_an_element(ParameterServerStrategy& strategy, ClusterCoordinator& coordinator) {
  auto worker_fn = function([](Iterator iterator) { return iterator.next().tensor(); });
  auto per_worker_dataset_fn = [&] {
    return strategy.distribute_datasets_from_function([](const InputContext&) {
      return data::from_tensor_slices(Tensor({3, 3, 3}));
    });
  };
  auto per_worker_dataset = coordinator.create_per_worker_dataset(per_worker_dataset_fn);
  auto per_worker_iter = per_worker_dataset.iterator();
  auto remote_value = coordinator.schedule(worker_fn, per_worker_iter);
  std::cout << "an element: " << remote_value.fetch() << '\n';

  // Two elements are left, so the third function fails. join() throws what it threw.
  for (int i = 0; i < 3; ++i) coordinator.schedule(worker_fn, per_worker_iter);
  std::cout << "join: " << capture_status([&] { coordinator.join(); }).code << '\n';
}

// A step that the worker runs on its replicas, with a variable that is on a parameter server.
void add_to_a_variable(ParameterServerStrategy& strategy, ClusterCoordinator& coordinator) {
  auto dataset_fn = [] { return data::from_tensor_slices(Tensor({1, 1, 1})); };
  Variable v = strategy.create([] { return Variable(0, {.name = "v"}); });
  std::cout << "the variable is on " << v.device() << '\n';

  auto worker_fn = function([&](Iterator iterator) {
    auto replica_fn = [&](Tensor x) {
      v.assign_add(x);
      return v.read_value();
    };
    return strategy.run(replica_fn, iterator.next());
  });
  auto distributed_dataset = coordinator.create_per_worker_dataset(dataset_fn);
  auto distributed_iterator = distributed_dataset.iterator();
  auto result = coordinator.schedule(worker_fn, distributed_iterator);
  std::cout << "after one step: " << coordinator.fetch(result) << '\n';

  for (int i = 0; i < 2; ++i) coordinator.schedule(worker_fn, distributed_iterator);
  coordinator.join();
  std::cout << "done: " << coordinator.done() << ", after all steps: " << v.read_value() << '\n';
}

int main() {
  const TFConfigClusterResolver cluster_resolver;
  if (serve_task(cluster_resolver)) return 0;
  ParameterServerStrategy strategy(cluster_resolver);
  ClusterCoordinator coordinator(strategy);
  take_an_element(strategy, coordinator);
  add_to_a_variable(strategy, coordinator);
  coordinator.shutdown_cluster();
}
