#include <atomic>

#include "base/mutex.h"
#include "base/raise.h"
#include "cohort/cluster_resolver.h"
#include "cohort/coordinator.h"
#include "coordinator/remote_result.h"
#include "distribute/input/distributed_input.h"
#include "distribute/strategies/worker_strategies.h"
#include "trainer/trainer_impl.h"

namespace cohort::internal {
namespace {

// The replicas of this process make the steps.
class LocalRunner : public StepRunner {
 public:
  explicit LocalRunner(TrainerImpl& trainer) : trainer_(trainer) {}

  size_t steps_ahead() const override { return 0; }
  DistributedDataset distribute(const data::Dataset& dataset) override {
    return trainer_.strategy.distribute_dataset(dataset);
  }
  Outcome train(const DistributedElement& batch, int64_t examples, StepTimes& times) override {
    return given(trainer_.train_step(batch, examples, &times));
  }
  Outcome evaluate(const DistributedElement& batch, int64_t examples) override {
    return given(trainer_.evaluate_step(batch, examples));
  }
  Outcome predict(const DistributedElement& batch) override {
    return given(trainer_.outputs(batch));
  }

 private:
  static Outcome given(Tensor value) {
    return [value = std::move(value)] { return value; };
  }
  TrainerImpl& trainer_;
};

// Enough that no worker waits for this process, which makes batches and calls callbacks.
constexpr size_t kStepsAheadPerWorker = 4;
// How often a wait looks whether the coordinator has met an error that no step has.
constexpr std::chrono::milliseconds kLookForErrors{200};

// The same dataset, iterated in this process although the strategy's workers are elsewhere.
DistributedDataset walked_here(const DistributedDataset& dataset) {
  DistributedInput input = *Access::impl(dataset);
  input.rebuild = nullptr;
  return Access::make<DistributedDataset>(
      std::make_shared<const DistributedInput>(std::move(input)));
}

void check_is_chief(const Strategy& strategy) {
  const std::string job = strategy.extended().cluster_resolver()->task_type().value_or("");
  if (job != "ps" && job != "worker") return;
  raise(Code::FailedPrecondition,
        "[Trainer] under a ParameterServerStrategy the chief trains, and this task is a {}, which "
        "serves: call serve_task(resolver) before the strategy is made, or start it with `cohort "
        "serve`",
        job);
}

// Restores variables for a coordinator, which may live longer than the runner. Thread-safe.
class Restoring {
 public:
  void set(std::function<void()> restore) {
    const std::lock_guard one_at_a_time(turn_);
    restore_ = std::move(restore);
  }
  // Called by the coordinator, on one of its threads.
  void restore() {
    const std::lock_guard one_at_a_time(turn_);
    if (!restore_) {
      raise(Code::FailedPrecondition,
            "[Trainer] variables were lost with their parameter server; set FitOptions::backup to "
            "a directory, and fit() restores the variables from it");
    }
    restore_();
    happened = true;
  }

  std::atomic<bool> happened = false;

 private:
  Turn turn_;                      // of the thread that restores; set() waits for its end
  std::function<void()> restore_;  // guarded by turn_
};

// A coordinator has workers make the steps. Each step carries its batch, so that every example
// counts once whichever workers are lost, and datasets of C++ code and positions stay in this
// process.
class CoordinatedRunner : public StepRunner {
 public:
  explicit CoordinatedRunner(TrainerImpl& trainer)
      : trainer_(trainer),
        coordinator_(trainer.strategy,
                     {.restore = [restoring = restoring_] { restoring->restore(); }}),
        train_(traced("train_step",
                      [&](const DistributedElement& batch, int64_t examples) {
                        return trainer_.train_step(batch, examples, nullptr);
                      })),
        evaluate_(traced("evaluate_step", std::bind_front(&TrainerImpl::evaluate_step, &trainer))),
        predict_(traced("predict", [&](const DistributedElement& batch, int64_t) {
          return trainer_.outputs(batch);
        })) {}

  size_t steps_ahead() const override {
    return kStepsAheadPerWorker * static_cast<size_t>(coordinator_.num_workers());
  }
  DistributedDataset distribute(const data::Dataset& dataset) override {
    return walked_here(trainer_.strategy.distribute_dataset(dataset));
  }

  Outcome train(const DistributedElement& batch, int64_t examples, StepTimes& times) override {
    return [wait = begin(train_, batch, examples), &times] {
      Stopwatch clock;
      const Tensor loss = wait();
      times.compute += clock.lap();
      return loss;
    };
  }
  Outcome evaluate(const DistributedElement& batch, int64_t examples) override {
    return begin(evaluate_, batch, examples);
  }
  Outcome predict(const DistributedElement& batch) override { return begin(predict_, batch, 0); }

  void end_steps() override {
    // An error of these steps has been thrown already or does not matter any more.
    (void)capture_status([&] { coordinator_.join(); });
  }
  void set_restore(std::function<void()> restore) override { restoring_->set(std::move(restore)); }
  bool has_restored() const override { return restoring_->happened; }
  bool is_loss(const Status& error) const override {
    return has_restored() || error.code == Code::Unavailable;
  }
  void await_tasks() override {
    end_steps();
    // A function that needs all servers makes the coordinator wait for a lost server, and restore
    // the variables of a restarted one.
    coordinator_.schedule([&] {
      std::vector<Tensor> values;
      for (const Variable& variable : trainer_.model.variables()) {
        values.push_back(variable.read_value());
      }
      return values;
    });
    coordinator_.join();
    restoring_->happened = false;
  }

 private:
  // The number of examples is part of the trace.
  using TracedStep = std::function<Tensor(const DistributedElement&, int64_t)>;
  static Function<TracedStep> traced(const std::string& name, const TracedStep& step) {
    return function(step, {.name = name});
  }

  Outcome begin(const Function<TracedStep>& step, const DistributedElement& batch,
                int64_t examples) {
    return [this, result = coordinator_.schedule(step, batch, examples)] {
      while (!Access::result(result)->is_ready_within(kLookForErrors)) coordinator_.done();
      const Status status = Access::result(result)->error();
      if (!status.ok()) coordinator_.join();  // throws the first error
      throw_if_error(status);
      return result.fetch();
    };
  }

  TrainerImpl& trainer_;
  const std::shared_ptr<Restoring> restoring_ = std::make_shared<Restoring>();
  ClusterCoordinator coordinator_;
  const Function<TracedStep> train_;
  const Function<TracedStep> evaluate_;
  const Function<TracedStep> predict_;
};

}  // namespace

std::unique_ptr<StepRunner> make_step_runner(TrainerImpl& trainer) {
  if (dynamic_cast<RemoteWorkers*>(&trainer.strategy.extended()) == nullptr) {
    return std::make_unique<LocalRunner>(trainer);
  }
  check_is_chief(trainer.strategy);
  return std::make_unique<CoordinatedRunner>(trainer);
}

}  // namespace cohort::internal
