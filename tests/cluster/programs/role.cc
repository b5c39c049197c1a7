// One program, every role: what TF_CONFIG says it is.

#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

int main() {
  TFConfigClusterResolver resolver;
  if (resolver.task_type() == "worker" || resolver.task_type() == "ps") {
    Server server(resolver.cluster_spec(),
                  {.job_name = resolver.task_type(), .task_index = resolver.task_id()});
    server.join();
    return 0;
  }
  std::cout << "a client of " << resolver.cluster_spec() << '\n';
}
