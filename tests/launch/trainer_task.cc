// A task that trains with a Trainer, alone, in lockstep with other workers or with parameter
// servers, as it was started: trainer_task DIRECTORY [JOB:INDEX@STEP | EPOCHS] [WORD...].
//
// The chief ends a task with SIGKILL behind that step, once in all lives of it. Numbers of
// processes, backups and that it has happened are in the directory.
//
// "validate" and "validate_long" evaluate the data once and 10,000,000 times after each epoch.
// "raise" sends this process two SIGTERM in its step 9. "rare" has 1,000 steps between two calls of
// callbacks. "hang" stays in step 9. "endless" has one epoch without an end and no calls of
// callbacks in it, or with "called" a call after each step; it makes no backup unless it is asked
// to end.

#include <cohort/cohort.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <set>

using namespace cohort;

namespace {

struct Plan {
  std::string directory;
  std::string victim;  // "worker:1"
  int64_t step = -1;
  int epochs = 6;
  std::set<std::string> words = {};
};

Plan plan_from(int argc, char** argv) {
  Plan plan{.directory = argv[1], .victim = {}};
  if (argc < 3) return plan;
  plan.words = {argv + 3, argv + argc};
  const std::string text = argv[2];
  const size_t at = text.find('@');
  if (at == std::string::npos) {
    plan.epochs = std::stoi(text);
    return plan;
  }
  plan.victim = text.substr(0, at);
  plan.step = std::stoll(text.substr(at + 1));
  return plan;
}

std::string process_file(const Plan& plan, const std::string& task) {
  return plan.directory + "/process_of_" + task;
}

void note_process(const Plan& plan) {
  const char* const task = std::getenv("COHORT_TASK");
  if (task != nullptr) std::ofstream(process_file(plan, task)) << getpid();
}

void kill_victim(const Plan& plan, Trainer& trainer) {
  const std::string happened = plan.directory + "/happened";
  if (trainer.progress().step != plan.step || !trainer.is_chief()) return;
  if (std::filesystem::exists(happened)) return;
  std::ofstream(happened) << 1;
  pid_t process = 0;
  std::ifstream(process_file(plan, plan.victim)) >> process;
  kill(process, SIGKILL);
}

// Says when its first element is read.
std::optional<data::Dataset> validation_of(const Plan& plan, const data::Dataset& batches) {
  const bool is_long = plan.words.contains("validate_long");
  if (!is_long && !plan.words.contains("validate")) return std::nullopt;
  return batches.repeat(is_long ? 10'000'000 : 1).map([](Tensor x, Tensor y) {
    static std::once_flag first;
    std::call_once(first, [] {
      std::printf("validates\n");
      std::fflush(stdout);
    });
    return std::tuple(x, y);
  });
}

void train(const Plan& plan) {
  const auto strategy = strategy_from_environment();
  const auto scope = strategy->scope();
  const Tensor x = reshape(cast(range(24), kFloat32), {24, 1}) / 24.f;
  const auto batches = data::from_tensor_slices(x, 3.f * x + 1.f).shuffle(24, {.seed = 4}).batch(4);
  nn::Dense model(1, 1, {.kernel_initializer = nn::zeros()});
  optim::Sgd optimizer({.learning_rate = 0.05, .momentum = 0.5});
  int calls = 0;
  const auto input = [&](const Tensor& inputs) {
    if (++calls == 9 && plan.words.contains("raise")) {
      for (int i = 0; i < 2; ++i) raise(SIGTERM);
    }
    if (calls == 9 && plan.words.contains("endless")) {
      std::printf("makes 9\n");
      std::fflush(stdout);
    }
    return inputs;
  };
  Trainer trainer(model, nn::mean_squared_error, optimizer, {.input = input});
  const auto speak = [](const char* word, Trainer& at) {
    if (!at.is_chief()) return;
    std::printf("%s %lld\n", word, static_cast<long long>(at.progress().step));
    std::fflush(stdout);
  };
  const auto around = std::make_shared<LambdaCallback>(
      LambdaCallbacks{.on_fit_begin = [&](Trainer& at) { speak("begins", at); },
                      .on_step_end =
                          [&](Trainer& at, const Logs&) {
                            kill_victim(plan, at);
                            if (at.progress().step != 9) return;
                            speak("made", at);
                            while (plan.words.contains("hang")) pause();
                          }});
  const bool is_endless = plan.words.contains("endless");
  const bool is_called = !is_endless || plan.words.contains("called");
  const int64_t per_call = !is_called ? 1'000'000'000 : plan.words.contains("rare") ? 1000 : 1;
  const std::optional<int64_t> endless_steps =
      is_endless ? std::optional<int64_t>(1'000'000'000) : std::nullopt;
  const History history = trainer.fit(is_endless ? batches.repeat() : batches,
                                      {.epochs = plan.epochs,
                                       .steps_per_epoch = endless_steps,
                                       .steps_per_execution = per_call,
                                       .validation = validation_of(plan, batches),
                                       .callbacks = {around},
                                       .backup = plan.directory + "/backup",
                                       .backup_steps = is_endless ? 1'000'000'000 : 4,
                                       .progress = false});
  const bool learnt = trainer.evaluate(batches).at("loss") < history.epochs.front().at("loss");
  if (!trainer.is_chief()) return;
  std::printf("updates %lld\n",
              static_cast<long long>(optimizer.iterations().read_value().to<int64_t>()));
  std::printf("result %s", model.kernel().read_value().to_string().c_str());
  for (const Logs& logs : history.epochs) std::printf(" %.17g", logs.at("loss"));
  std::printf("\nloss %s\n", learnt ? "smaller" : "larger");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const Plan plan = plan_from(argc, argv);
  note_process(plan);
  train(plan);
}
