// A cluster of one task in this process, and a session on it.

#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

int main() {
  Server server = Server::create_local_server({.start = false});
  server.start();
  const ServerDef def = server.server_def();
  std::cout << "job " << def.job_name << ", task " << def.task_index << ", protocol "
            << def.protocol << '\n';

  Graph graph;
  auto building = graph.as_default();
  Tensor hello = constant(Tensor("Hello, distributed TensorFlow!"));
  Session sess(server.target());
  std::cout << sess.run(hello) << '\n';
  for (const std::string& name : sess.list_devices()) std::cout << name << '\n';

  server.stop();
  server.join();  // returns: the server has stopped
}
