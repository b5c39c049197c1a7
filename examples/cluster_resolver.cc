// Resolvers say which cluster there is and which task of it this process is.

#include <cohort/cohort.h>

#include <cstdlib>
#include <iostream>
using namespace cohort;

int main() {
  ClusterSpec cluster_spec({{"ps", {"localhost:2222", "localhost:2223"}},
                            {"worker", {"localhost:2224", "localhost:2225", "localhost:2226"}}});
  std::cout << cluster_spec << '\n';

  // The index of the task.
  {
    SimpleClusterResolver cluster_resolver(cluster_spec, {.task_type = "worker", .task_id = 0});
    if (cluster_resolver.task_type() == "worker" && cluster_resolver.task_id() == 0) {
      std::cout << "this is the worker with the id 0\n";
    } else {
      std::cout << "this is a task with another id\n";
    }
  }
  // The type of the task.
  {
    SimpleClusterResolver cluster_resolver(cluster_spec, {.task_type = "worker", .task_id = 1});
    if (cluster_resolver.task_type() == "worker") {
      std::cout << "this is a worker\n";
    } else if (cluster_resolver.task_type() == "ps") {
      std::cout << "this is a parameter server\n";
    }
  }
  // A process that is no task of the cluster has neither.
  {
    SimpleClusterResolver cluster_resolver(cluster_spec, {.num_accelerators = {{"GPU", 2}}});
    std::cout << "type: " << cluster_resolver.task_type().value_or("none")
              << ", has an id: " << cluster_resolver.task_id().has_value()
              << ", GPUs per worker: " << cluster_resolver.num_accelerators()["GPU"] << '\n';
  }
  // Launchers set TF_CONFIG; `cohort run` does.
  setenv("TF_CONFIG", R"({"cluster": {"ps": ["localhost:2222"], "worker": ["localhost:2224"]},
                          "task": {"type": "ps", "index": 0}})",
         1);
  TFConfigClusterResolver cluster_resolver;
  std::cout << cluster_resolver.cluster_spec() << ", this is " << *cluster_resolver.task_type()
            << ' ' << *cluster_resolver.task_id() << '\n';
}
