#include "trainer/step_runner.h"

#include "distribute/remote_workers.h"
#include "trainer/trainer_impl.h"

namespace cohort::internal {
namespace {

// The strategy's replicas, at once.
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

}  // namespace

std::unique_ptr<StepRunner> make_step_runner(TrainerImpl& trainer) {
  const bool elsewhere = dynamic_cast<RemoteWorkers*>(&trainer.strategy.extended()) != nullptr;
  if (elsewhere) return make_coordinated_runner(trainer);
  return std::make_unique<LocalRunner>(trainer);
}

}  // namespace cohort::internal
