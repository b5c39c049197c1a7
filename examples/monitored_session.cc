// A training loop that looks after itself: a line is fitted to points while hooks stop it, look for
// NaN and write down the loss. In a cluster the same program runs in every worker: it makes its
// variables inside device(replica_device_setter(cluster)), says whether it is the chief, and gives
// its server's target as .master.

#include <cohort/cohort.h>
#include <cohort/graph_training.h>

#include <cstdio>
using namespace cohort;

int main() {
  Graph graph;
  auto building = graph.as_default();
  Variable step = global_step();
  Variable w = get_variable("w", {.shape = {1, 1}, .initializer = nn::zeros()});
  Variable b = get_variable("b", {.shape = {1}, .initializer = nn::zeros()});

  // A thread fills a queue with points of y = 2 x + 1.
  FifoQueue points({.capacity = 4, .components = {{kFloat32, {4, 1}}, {kFloat32, {4, 1}}}});
  Tensor some_x = random::uniform({4, 1}, {.low = 0, .high = 1});
  add_queue_runner(QueueRunner(points, {points.enqueue({some_x, some_x * 2.f + 1.f})}));
  std::vector<Tensor> batch = points.dequeue();

  Tensor loss = mean(square(matmul(batch[0], w) + b - batch[1]));
  optim::Sgd sgd({.learning_rate = 0.3});
  Tensor train_op = sgd.minimize(loss, {}, step);
  Tensor slope = w.read_value(), offset = b.read_value(), last_step = step.read_value();

  MonitoredTrainingSession session(
      {.hooks = {
           std::make_shared<StopAtStepHook>(StopAtStepOptions{.last_step = 500}),
           std::make_shared<NanTensorHook>(loss),
           std::make_shared<LoggingTensorHook>(LoggingTensorOptions{
               .tensors = {{"step", last_step}},
               .every = {.steps = 200},
               .write = [](const std::string& line) { std::printf("%s\n", line.c_str()); }})}});
  session.manage([&] {
    while (!session.should_stop()) session.run(train_op);
    std::vector<Tensor> line = session.raw_session().run({slope, offset});
    std::printf("y = %.2f x + %.2f\n", line[0].to<float>(), line[1].to<float>());
  });
  return 0;
}
