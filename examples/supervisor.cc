// Two errors of programs that replicate between graphs, and the program without them.

#include <cohort/cohort.h>
#include <cohort/graph_training.h>

#include <iostream>
using namespace cohort;

// The variable is made outside device(), so that each replica would have its own.
void variable_without_a_device() {
  Graph graph;
  auto building = graph.as_default();
  get_variable("Variable", {.shape = {2, 4}});
  Supervisor sv({.is_chief = false});
}

// The supervisor is made inside device(), so that what it adds to the graph would go there, too.
void supervisor_inside_device() {
  Graph graph;
  auto building = graph.as_default();
  auto on = device("/job:localhost/task:0");
  get_variable("Variable", {.shape = {2, 4}});
  Supervisor sv({.is_chief = false});
}

// The variable is made inside device(), the supervisor outside. The chief initialises the variable,
// and both workers read it.
void variable_inside_supervisor_outside() {
  Server server = Server::create_local_server();
  Graph graph;
  auto building = graph.as_default();
  Variable variable;
  {
    auto on = device("/job:localhost/task:0");
    variable = get_variable("Variable", {.shape = {2, 4}, .initializer = nn::ones()});
  }
  Tensor total = sum(variable);
  Supervisor sv({.is_chief = true});
  Supervisor other_sv({.is_chief = false});
  sv.managed_session(server.target(), [&](Session& sess) {
    std::cout << "the chief: " << sess.run(total) << '\n';
    auto other_sess = other_sv.prepare_or_wait_for_session(server.target());
    std::cout << "another worker: " << other_sess->run(total) << '\n';
  });
}

int main() {
  std::cout << capture_status(variable_without_a_device) << '\n';
  std::cout << capture_status(supervisor_inside_device) << '\n';
  variable_inside_supervisor_outside();
}
