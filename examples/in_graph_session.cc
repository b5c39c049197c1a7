// A graph whose nodes are on two tasks of a cluster, run by a session that does not know the
// cluster and then by one that does. TF_CONFIG says which task a process is:
//
//   cohort run --ps 1 --workers 1 --chief in_graph_session

#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

void run_server(const ClusterResolver& resolver) {
  ClusterSpec cluster = resolver.cluster_spec();
  Server server(cluster, {.job_name = resolver.task_type(), .task_index = resolver.task_id()});
  server.join();
}

void run_client(const ClusterSpec& cluster) {
  Graph graph;
  auto building = graph.as_default();
  Tensor w, b, x, res, init;
  {
    auto on = device("/job:ps/task:0");
    w = get_variable("w", {.shape = {2, 4}, .initializer = nn::ones()});
    b = get_variable("b", {.shape = {4}, .initializer = nn::zeros()});
  }
  {
    auto on = device("/job:worker/task:0");
    x = placeholder(kFloat32, {1, 2}, "x");
    res = matmul(x, w) + b;
    init = initialize_all_variables();
  }
  const Feeds feeds{{x, Tensor({{1.f, 2.f}})}};

  std::cout << "without a target\n";
  Session local;
  const std::string error = capture_status([&] { local.run(init); }).message;
  std::cout << error.substr(0, error.find("; the group:")) << '\n';  // the rest lists nodes

  std::cout << "with a worker as the target\n";
  Session sess("grpc://" + cluster.task_address("worker", 0), {.log_device_placement = true});
  sess.run(init);
  std::cout << sess.run(res, feeds) << '\n';

  std::cout << "without a value for x\n";
  std::cout << capture_status([&] { sess.run(res); }).message << '\n';
}

int main() {
  const TFConfigClusterResolver resolver;
  const std::string type = resolver.task_type().value_or("");
  if (type == "ps" || type == "worker") {
    run_server(resolver);
  } else {
    run_client(resolver.cluster_spec());
  }
}
