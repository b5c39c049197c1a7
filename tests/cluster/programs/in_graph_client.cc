// A graph over a cluster: in_graph_client [TARGET]. Without a target it must fail.

#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

int main(int argc, char** argv) {
  Graph graph;
  auto building = graph.as_default();
  Tensor w, b, x, y;
  {
    auto on = device("/job:ps/task:0");
    w = get_variable("w", {.shape = {2, 4}, .initializer = ones()});
    b = get_variable("b", {.shape = {4}, .initializer = zeros()});
  }
  {
    auto on = device("/job:worker/task:0");
    x = placeholder(kFloat32, {-1, 2});
    y = matmul(x, w) + b;
  }
  try {
    Session session(argc > 1 ? argv[1] : "", {.log_device_placement = true});
    session.run(global_variables_initializer());
    std::cout << session.run(y, {{x, Tensor({{1.f, 2.f}})}}) << '\n';
  } catch (const Error& error) {
    std::cout << error.what() << '\n';
    return 1;
  }
}
