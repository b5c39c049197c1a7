// A worker that pushes and pulls as a parameter server's workers do: its server is in its own
// process, the ps in another.

#include "parts.h"
#include "ratio.h"
#include "zeromq/zeromq.h"

namespace cohort::bench {
namespace {

// A variable on the ps; a step adds a tensor to it and gets the sum.
class PushPull {
 public:
  PushPull(const std::string& target, int64_t elements) {
    auto building = graph_.as_default();
    auto on = device("/job:ps/task:0");
    Variable v = get_variable("v", {.shape = {elements}, .initializer = zeros()});
    const Tensor delta = placeholder(kFloat32, {elements});
    const Tensor sum = v.assign_add(delta);
    const Tensor initialize = global_variables_initializer();
    on.close();
    building.close();
    session_ =
        std::make_unique<Session>(graph_, target, SessionOptions{.isolate_session_state = true});
    session_->run(initialize);
    step_ = std::make_unique<Callable>(session_->make_callable({delta}, {sum}));
    gradient_ = cohort::ones({elements});
  }
  void operator()() { sum_ = (*step_)({gradient_})[0]; }

 private:
  Graph graph_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Callable> step_;
  Tensor gradient_;
  Tensor sum_;
};

struct Size {
  const char* name;
  int64_t bytes;
  double times_as_fast;
  int calls;
  int rounds;
};

}  // namespace

void push_and_pull() {
  if (!ZeroMq::is_there()) {
    std::printf("ZeroMQ: left out, built without it (libzmq3-dev)\n");
    return;
  }
  const ClusterSpec cluster = test::free_cluster(1, 1);
  const test::Process ps(
      {own_path(), cluster.task_address("ps", 0), cluster.task_address("worker", 0), "ps", "0"});
  const Server worker(cluster, {.job_name = "worker", .task_index = 0});
  for (const Size& size :
       {Size{"4 KB", int64_t{4} << 10, 5, 200, 31}, Size{"1 MB", int64_t{1} << 20, 4, 20, 31},
        Size{"64 MB", int64_t{64} << 20, 3, 1, 11}}) {
    PushPull ours(worker.target(), size.bytes / 4);
    ZeroMq theirs(own_path(), static_cast<size_t>(size.bytes));
    run({.name = std::string("push and pull of ") + size.name + " over ZeroMQ",
         .ours = [&] { ours(); },
         .theirs = [&] { theirs.push_and_pull(); },
         .calls = size.calls,
         .rounds = size.rounds,
         .limit = 1 / size.times_as_fast});
  }
}

}  // namespace cohort::bench
