#pragma once

#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "cohort/cohort.h"
#include "cohort/graph_training.h"

namespace cohort::test {

constexpr std::chrono::milliseconds kTimeLimit{30'000};

// All workers of a cluster in one graph and one session: what they share by name on a ps they share
// here as well. One variable that starts at 10, learning rate 0.5; each worker is fed its gradient.
class SyncCluster {
 public:
  SyncCluster(int to_aggregate, int total, bool numbered = true) : building_(graph_.as_default()) {
    v_.emplace(10.f, VariableOptions{.name = "v"});
    Variable step = cohort::global_step();
    sgd_.emplace(optim::SgdOptions{.learning_rate = 0.5});
    for (int i = 0; i < total; ++i) {
      SyncReplicasOptions options{.replicas_to_aggregate = to_aggregate,
                                  .total_num_replicas = total};
      if (numbered) options.worker_index = i;
      Worker& worker = *workers_.emplace_back(std::make_unique<Worker>(*sgd_, options));
      worker.gradient = placeholder(kFloat32, {});
      worker.train = worker.optimizer.apply_gradients({worker.gradient * 1.f}, {*v_}, step);
      worker.local_step = worker.optimizer.local_step().read_value();
    }
    read_v_ = v_->read_value();
    read_step_ = step.read_value();
    num_tokens_ =
        FifoQueue(
            {.components = {{kInt64, {}}}, .name = "tokens", .shared_name = "sync_replicas/tokens"})
            .size();
    num_gradients_ =
        ConditionalAccumulator({.shape = {}, .shared_name = "sync_replicas/v/gradients"})
            .num_accumulated();
    init_ = global_variables_initializer();
    session_.emplace(graph_);
  }

  // As the chief and the other workers do it.
  void start(std::optional<int> num_tokens = std::nullopt) {
    const Tensor tokens = chief().get_init_tokens_op(num_tokens);
    session_->run(init_);
    session_->run(chief().chief_init_op());
    for (const auto& worker : workers_) session_->run(worker->optimizer.local_step_init_op());
    session_->run(tokens);
    start_chief();
  }
  void start_chief() { chief().get_chief_queue_runner().create_threads(*session_, coordinator_); }
  void stop() {
    coordinator_.request_stop();
    coordinator_.join({.stop_grace_period = kTimeLimit});
  }

  // One step of a worker; returns its token.
  int64_t train(int worker, float gradient) {
    Worker& the = *workers_.at(static_cast<size_t>(worker));
    return session_->run(the.train, {{the.gradient, Tensor(gradient)}}, {.timeout = kTimeLimit})
        .to<int64_t>();
  }
  std::future<int64_t> train_meanwhile(int worker, float gradient) {
    return std::async(std::launch::async, [=, this] { return train(worker, gradient); });
  }
  void await_step(int64_t wanted) {
    while (step() < wanted) std::this_thread::yield();
  }
  void await_gradients(int64_t wanted) {
    while (gradients() < wanted) std::this_thread::yield();
  }
  void await_tokens(int64_t wanted) {
    while (tokens() != wanted) std::this_thread::yield();
  }

  SyncReplicasOptimizer& chief() { return workers_[0]->optimizer; }
  SyncReplicasOptimizer& worker(int i) { return workers_.at(static_cast<size_t>(i))->optimizer; }
  Session& session() { return *session_; }
  float variable() { return session_->run(read_v_).to<float>(); }
  int64_t step() { return session_->run(read_step_).to<int64_t>(); }
  int64_t tokens() { return session_->run(num_tokens_).to<int64_t>(); }
  int64_t gradients() { return session_->run(num_gradients_).to<int64_t>(); }
  int64_t live() { return session_->run(chief().num_live_workers()).to<int64_t>(); }
  int64_t local_step(int worker) {
    return session_->run(workers_.at(static_cast<size_t>(worker))->local_step).to<int64_t>();
  }

 private:
  struct Worker {
    Worker(optim::Optimizer& inner, const SyncReplicasOptions& options)
        : optimizer(inner, options) {}
    SyncReplicasOptimizer optimizer;
    Tensor gradient, train, local_step;
  };

  Graph graph_;
  Graph::Scope building_;
  std::optional<Variable> v_;
  std::optional<optim::Sgd> sgd_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Tensor read_v_, read_step_, num_tokens_, num_gradients_, init_;
  std::optional<Session> session_;
  Coordinator coordinator_;
};

}  // namespace cohort::test
