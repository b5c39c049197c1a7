// Programs that something happens to.
//
// trainer train TARGET DIRECTORY: a client that counts two variables on two ps tasks up, with a
// worker between, and saves after every step, one file on each ps. Prints what it has saved, and
// goes on after losses for ever.
//
// trainer count PS WORKER: worker 0 of a cluster of two tasks, with a client of its own that counts
// a variable on the ps up. Prints the count; ends, with the code of the error, when it cannot.
//
// trainer visit TARGET count|wait: a client that does the same on somebody else's server, or waits
// in a step for ever once it has counted to 1.

#include <cohort/cohort.h>
#include <cohort/graph_training.h>
#include <sys/prctl.h>

#include <csignal>
#include <cstdio>
#include <cstring>

namespace {

using namespace cohort;
using std::chrono::milliseconds;

void tell(const char* what, double number) {
  std::printf("%s %.0f\n", what, number);
  std::fflush(stdout);
}

void train(const std::string& target, const std::string& directory) {
  Graph graph;
  const auto building = graph.as_default();
  const Tensor one = placeholder(kFloat64, {});
  Tensor counted, step;
  {
    const auto on =
        device(replica_device_setter({.ps_tasks = 2, .worker_device = "/job:worker/task:1"}));
    Variable steps = global_step();
    const Tensor many = broadcast_to(one, {1000});
    Variable a(zeros({1000}, kFloat64), {.name = "a"}), b(zeros({1000}, kFloat64), {.name = "b"});
    counted = a.assign_add(many);
    step = group({counted, b.assign_add(many), steps.assign_add(int64_t{1})});
  }
  MonitoredTrainingSession session(
      {.master = target,
       .checkpoint_dir = directory,
       .scaffold = {.saver = make_session_saver({.max_to_keep = 3, .sharded = true})},
       .save_checkpoint = {.steps = 1},
       .log_step_count_steps = std::nullopt,
       .recovery = {.max_attempts = 10'000,
                    .first_wait = milliseconds(20),
                    .longest_wait = milliseconds(200)},
       .config = {.timeout = milliseconds(5000), .silence_limit = milliseconds(3000)}});
  const Tensor value(1.0);
  while (true) {
    tell("saved", session.run({counted, step}, {{one, value}})[0].at<double>({0}));
  }
}

void count(const std::string& ps, const std::string& worker) {
  const ClusterSpec cluster({{"ps", {ps}}, {"worker", {worker}}});
  Server server(cluster, {.job_name = "worker", .task_index = 0},
                {.silence_limit = milliseconds(2000)});
  Graph graph;
  const auto building = graph.as_default();
  const auto on = device("/job:ps/task:0");
  Variable v(0.0, {.name = "v"});
  const Tensor initialize = global_variables_initializer();
  const auto here = device("/job:worker/task:0");
  const Tensor one = random::uniform({}, {.dtype = kFloat64}) * 0.0 + 1.0;
  const Tensor counted = v.assign_add(one);
  Session session(server.target());
  session.run(initialize);
  while (true) tell("counted", session.run(counted).to<double>());
}

void visit(const std::string& target, bool wait) {
  Graph graph;
  const auto building = graph.as_default();
  const auto on = device("/job:ps/task:0");
  Variable v(0.0, {.name = "v"});
  const Tensor initialize = global_variables_initializer();
  const Tensor counted = v.assign_add(Tensor(1.0));
  const Tensor never = FifoQueue({.components = {{kFloat32}}, .name = "never"}).dequeue()[0];
  Session session(target);
  session.run(initialize);
  do {
    tell("counted", session.run(counted).to<double>());
  } while (!wait);
  session.run(never);
}

}  // namespace

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // not longer than the test
  if (argc != 4) return 2;
  const Status status = capture_status([&] {
    if (std::strcmp(argv[1], "train") == 0) train(argv[2], argv[3]);
    if (std::strcmp(argv[1], "count") == 0) count(argv[2], argv[3]);
    if (std::strcmp(argv[1], "visit") == 0) visit(argv[2], std::strcmp(argv[3], "wait") == 0);
  });
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return 100 + static_cast<int>(status.code);
}
