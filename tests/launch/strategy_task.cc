// A task that leaves the strategy to the way it was started: strategy_task [quiet] [shut_down]
// [FILE].
//
// It trains for two epochs or, when a file is named, within one epoch until that file exists.
// "quiet" turns the Trainer's line of progress off; "shut_down" shuts the cluster down at the end.

#include <cohort/cohort.h>

#include <cstdio>
#include <filesystem>

using namespace cohort;

namespace {

struct Plan {
  bool quiet = false;
  bool shut_down = false;
  std::string file = {};
};

Plan plan_from(int argc, char** argv) {
  Plan plan;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "quiet") {
      plan.quiet = true;
    } else if (word == "shut_down") {
      plan.shut_down = true;
    } else {
      plan.file = word;
    }
  }
  return plan;
}

void train(const Plan& plan) {
  const auto strategy = strategy_from_environment();
  const auto scope = strategy->scope();
  const Tensor x = reshape(cast(range(24), kFloat32), {24, 1}) / 24.f;
  const auto batches = data::from_tensor_slices(x, 3.f * x + 1.f)
                           .batch(4)
                           .options({.auto_shard_policy = data::AutoShardPolicy::Data});
  nn::Dense model(1, 1, {.kernel_initializer = nn::zeros()});
  optim::Sgd optimizer({.learning_rate = 0.05});
  Trainer trainer(model, nn::mean_squared_error, optimizer);
  const auto speak = [&](const std::string& text) {
    if (!trainer.is_chief()) return;
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  };
  speak("trains with " + strategy->to_string());
  const auto around = std::make_shared<LambdaCallback>(
      LambdaCallbacks{.on_step_end = [&](Trainer& at, const Logs&) {
        const int64_t step = at.progress().step;
        if (step % 500 == 0) speak("made " + std::to_string(step) + " steps");
        if (!plan.file.empty() && std::filesystem::exists(plan.file)) at.stop();
      }});
  trainer.fit(batches, {.epochs = 2,
                        .steps_per_epoch = plan.file.empty() ? 6 : 1'000'000'000,
                        .callbacks = {around},
                        .progress = !plan.quiet});
  speak("is done");
  if (!plan.shut_down) return;
  ClusterCoordinator(dynamic_cast<ParameterServerStrategy&>(*strategy)).shutdown_cluster();
}

}  // namespace

int main(int argc, char** argv) {
  const Status status = capture_status([&] { train(plan_from(argc, argv)); });
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return 1;
}
