// A task that others wait for: stalling_task WAY. The one that COHORT_STALLS names stalls, after
// some steps, in that way:
//
//   loop    it computes for ever before a collective
//   stop    it is stopped
//   input   it waits for its data
//   late    it does not come to the first rendezvous
//   ps      a parameter server is stopped while workers use it
//   tokens  it puts nothing more into a queue that the others take from, on a parameter server
//
// Without COHORT_STALLS no task stalls, and the tasks end after COHORT_STEPS steps.

#include <cohort/cohort.h>
#include <cohort/graph_training.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

using namespace cohort;

namespace {

constexpr int kGoodSteps = 3;

bool stalls() {
  const char* const wanted = std::getenv("COHORT_STALLS");
  return wanted != nullptr && std::string(wanted) == std::getenv("COHORT_TASK");
}

[[gnu::noinline]] void compute_for_ever() {
  for (volatile bool goes_on = true; goes_on;) {
  }
}

[[gnu::noinline]] void wait_for_data() {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

// What a step does besides training.
void disturb(const std::string& way, int step) {
  if (!stalls() || step != kGoodSteps) return;
  if (way == "loop") compute_for_ever();
  if (way == "stop") std::raise(SIGSTOP);
}

Tensor read_number(const Tensor& number, const std::string& way) {
  if (way == "input" && stalls() && number.to<int64_t>() > 3 * kGoodSteps) wait_for_data();
  return cast(number, kFloat32);
}

void train_together(const std::string& way) {
  if (way == "late" && stalls()) compute_for_ever();
  MultiWorkerMirroredStrategy strategy;
  auto scope = strategy.scope();
  Variable weight(1.f, {.name = "weight"});
  optim::Sgd optimizer({.learning_rate = 0.1});
  const char* const limit = std::getenv("COHORT_STEPS");
  const data::Dataset numbers =
      data::range(limit == nullptr ? 1'000'000 : strategy.num_workers() * std::atoi(limit))
          .map([way](Tensor number) { return read_number(number, way); });
  const auto step = [&](Tensor number) {
    GradientTape tape;
    const Tensor loss = sum(weight * number);
    const std::vector<Variable> variables{weight};
    optimizer.apply_gradients(tape.gradient(loss, variables), variables);
  };
  int count = 0;
  for (auto batch : strategy.distribute_dataset(numbers.batch(strategy.num_workers()))) {
    disturb(way, count++);
    strategy.run(step, batch);
  }
}

void serve(Server& server) {
  std::jthread stopper;
  if (stalls()) {
    stopper = std::jthread([&server] {
      while (server.status().plans == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      std::raise(SIGSTOP);
    });
  }
  server.join();
}

void use_ps(const std::string& target) {
  Graph graph;
  auto building = graph.as_default();
  auto on_ps = device("/job:ps/task:0");
  Variable total(0.f, {.name = "total"});
  const Tensor initialize = global_variables_initializer();
  const Tensor value = total.read_value();
  on_ps.close();
  auto on_worker = device("/job:worker/task:0");
  const Tensor twice = value * 2.f;
  on_worker.close();
  building.close();
  Session session(graph, target);
  session.run(initialize);
  for (;;) session.run(twice);
}

void use_queue(const std::string& target) {
  Graph graph;
  auto building = graph.as_default();
  auto on_ps = device("/job:ps/task:0");
  FifoQueue tokens({.capacity = 100, .components = {{kFloat32, {}}}, .name = "tokens"});
  const Tensor put = tokens.enqueue({Tensor(1.f)});
  const Tensor take = tokens.dequeue()[0];
  on_ps.close();
  building.close();
  Session session(graph, target);
  for (int step = 0; stalls(); ++step) {
    session.run(put);
    disturb("loop", step);
  }
  for (;;) session.run(take);
}

void train_with_ps(const std::string& way) {
  const auto resolver = resolver_from_environment();
  Server server(resolver->cluster_spec(),
                {.job_name = resolver->task_type(), .task_index = resolver->task_id()});
  if (resolver->task_type() == "ps") return serve(server);
  way == "tokens" ? use_queue(server.target()) : use_ps(server.target());
}

}  // namespace

int main(int, char** argv) {
  const std::string way = argv[1];
  way == "ps" || way == "tokens" ? train_with_ps(way) : train_together(way);
}
