// A task of a cluster with parameter servers. Worker 0 makes a variable on ps 0, both workers add
// to it, and each prints the total when both have.
//
// With a directory: writes a file of each kind that can be inspected.

#include <cohort/cohort.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace cohort;

namespace {

// Again and again until it is as wished for, at most 30 s.
template <typename Done>
void wait_for(const Done& done) {
  for (int tries = 0; tries < 3000; ++tries) {
    if (done()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  throw Error(Code::DeadlineExceeded, "[Train] the other worker does not come");
}

void train(const std::string& target, int index) {
  Graph graph;
  auto building = graph.as_default();
  auto on = device("/job:ps/task:0");
  Variable total(0.f, {.name = "total"});
  const Tensor initialize = global_variables_initializer();
  const Tensor ready = is_variable_initialized(total);
  const Tensor add = total.assign_add(index == 0 ? 10.f : 20.f);
  const Tensor value = total.read_value();
  on.close();
  building.close();

  Session session(graph, target);
  if (index == 0) session.run(initialize);
  wait_for([&] { return session.run(ready).to<bool>(); });
  session.run(add);
  wait_for([&] { return session.run(value).to<float>() == 30.f; });
  std::printf("%s certificates, total 30\n",
              credentials_from_environment().has_certificates() ? "with" : "without");
}

void write_files(const std::string& directory) {
  Variable weights(zeros({2, 3}), {.name = "weights"});
  Checkpoint({{"weights", weights}}).save(directory + "/ckpt");
  Graph graph;
  {
    auto building = graph.as_default();
    (void)(placeholder(kFloat32, {2}, "x") + 1.f);
  }
  std::ofstream(directory + "/graph", std::ios::binary) << graph.serialize();
  SummaryWriter summaries(directory);
  summaries.add_scalar("loss", 0.5, 1);
  summaries.close();
  std::filesystem::rename(summaries.path(), directory + "/events");
  data::TFRecordWriter records(directory + "/records");
  records.write("one");
  records.write("three");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2) {
    write_files(argv[1]);
    return 0;
  }
  const auto resolver = resolver_from_environment();
  Server server(resolver->cluster_spec(),
                {.job_name = resolver->task_type(), .task_index = resolver->task_id()});
  if (resolver->task_type() == "ps") {
    server.join();
  } else {
    train(server.target(), *resolver->task_id());
  }
}
