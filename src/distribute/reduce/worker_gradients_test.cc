#include "distribute/reduce/worker_gradients.h"

#include <gtest/gtest.h>

#include <thread>

#include "cohort/error.h"
#include "cohort/ops.h"

namespace cohort::internal {
namespace {

// Three variables, and the gradients of one worker for them.
struct Worker {
  explicit Worker(const Communicator& member, bool overlap)
      : rank(member.rank()),
        gradients(member, {.overlap = overlap, .communication = {.bytes_per_pack = 1}},
                  std::make_shared<GroupWaitClock>()) {}

  Gradients own(float scale = 1) const {
    const auto value = static_cast<float>(rank + 1) * scale;
    return {fill({2}, value), fill({3}, 10 * value), fill({4}, 100 * value)};
  }
  // As a tape does that finds them in this order.
  void announce(const Gradients& found, const std::vector<size_t>& order) {
    GradientListener& listener = gradients.listener(0);
    listener.begin(variables);
    for (const size_t i : order) listener.ready(i, found[i]);
  }
  float sum_of(const Gradients& applied, size_t index) {
    return gradients.sum({applied}, variables)[index].dense().to_vector<float>()[0];
  }

  const int rank;
  WorkerGradients gradients;
  const std::vector<Variable> variables{Variable(zeros({2})), Variable(zeros({3})),
                                        Variable(zeros({4}))};
};

void on_both(bool overlap, const std::function<void(Worker&)>& body) {
  std::vector<Communicator> members = make_local_group(2);
  std::vector<std::jthread> threads;
  for (const Communicator& member : members) {
    threads.emplace_back([&, member] {
      Worker worker(member, overlap);
      body(worker);
    });
  }
}

TEST(WorkerGradients, ReduceAllButTheLastPackBeforeTheyAreApplied) {
  on_both(true, [](Worker& worker) {
    for (int step = 0; step < 3; ++step) {
      const Gradients own = worker.own();
      worker.announce(own, {1, 2, 0});
      // From the second step on, both packs but that of variable 0, which came last, have gone.
      EXPECT_EQ(worker.gradients.early_packs(), 2 * step);
      EXPECT_EQ(worker.sum_of(own, static_cast<size_t>(step)), step == 0   ? 3
                                                               : step == 1 ? 30
                                                                           : 300);
    }
  });
}

TEST(WorkerGradients, WithoutOverlapNothingIsReducedEarly) {
  on_both(false, [](Worker& worker) {
    for (int step = 0; step < 3; ++step) {
      const Gradients own = worker.own();
      worker.announce(own, {2, 1, 0});
      EXPECT_EQ(worker.sum_of(own, 0), 3);
    }
    EXPECT_EQ(worker.gradients.early_packs(), 0);
  });
}

TEST(WorkerGradients, OthersThanTheTapeGaveAreReducedAgain) {
  on_both(true, [](Worker& worker) {
    const Gradients own = worker.own();
    worker.announce(own, {2, 1, 0});
    EXPECT_EQ(worker.sum_of(own, 2), 300);
    const Gradients next = worker.own();
    worker.announce(next, {2, 1, 0});
    EXPECT_EQ(worker.gradients.early_packs(), 2);
    // One of the two applies twice as much.
    const Gradients applied = worker.rank == 1 ? worker.own(2) : next;
    EXPECT_EQ(worker.sum_of(applied, 2), 500);
    // After that all wait until they have agreed again.
    worker.announce(next, {2, 1, 0});
    EXPECT_EQ(worker.gradients.early_packs(), 2);
    EXPECT_EQ(worker.sum_of(next, 2), 300);
  });
}

TEST(WorkerGradients, ThatNoTapeGaveAreReducedToo) {
  on_both(true, [](Worker& worker) {
    const Gradients own = worker.own();
    worker.announce(own, {2, 1, 0});
    EXPECT_EQ(worker.sum_of(own, 1), 30);
    EXPECT_EQ(worker.sum_of(worker.own(2), 1), 60);
  });
}

// The chief computes gradients for its log, before and after those that it applies. In between the
// workers do something else together.
TEST(WorkerGradients, OfAPassThatOneWorkerMakesAloneAreLeftOut) {
  std::vector<Communicator> members = make_local_group(2);
  std::vector<std::jthread> threads;
  for (Communicator& member : members) {
    threads.emplace_back([&] {
      Worker worker(member, true);
      for (int step = 0; step < 8; ++step) {
        const bool logs = worker.rank == 0 && step > 1;
        if (logs && step % 3 == 0) worker.announce(worker.own(7), {2, 1, 0});
        EXPECT_EQ(member.all_reduce(Tensor(1)).to<int>(), 2);
        const Gradients own = worker.own();
        worker.announce(own, {2, 1, 0});
        if (logs && step % 3 == 1) worker.announce(worker.own(8), {2, 1, 0});
        EXPECT_EQ(member.all_reduce(Tensor(2)).to<int>(), 4);
        const auto index = static_cast<size_t>(step % 3);
        EXPECT_EQ(worker.sum_of(own, index), index == 0 ? 3.f : index == 1 ? 30.f : 300.f);
        if (logs && step % 3 == 2) worker.announce(worker.own(9), {2, 1, 0});
      }
      EXPECT_GT(worker.gradients.early_packs(), 0);
    });
  }
}

// Two optimizers, each with variables of its own, in turn; then out of turn.
TEST(WorkerGradients, OfSeveralListsGoEarlyInTheOrderOfTheirUpdates) {
  on_both(true, [](Worker& worker) {
    const std::vector<Variable> others{Variable(zeros({2})), Variable(zeros({2}))};
    int64_t early = 0;
    for (int step = 0; step < 12; ++step) {
      const bool first = step < 8 ? step % 2 == 0 : step < 10;
      if (first) {
        const Gradients own = worker.own();
        worker.announce(own, {2, 1, 0});
        if (worker.rank == 0) worker.announce(worker.own(2), {2, 1, 0});
        EXPECT_EQ(worker.sum_of(own, 2), 300);
      } else {
        const Gradients own{fill({2}, worker.rank + 1.f), fill({2}, 5.f)};
        GradientListener& listener = worker.gradients.listener(0);
        listener.begin(others);
        listener.ready(1, own[1]);
        listener.ready(0, own[0]);
        const std::vector<Gradient> sums = worker.gradients.sum({own}, others);
        EXPECT_EQ(sums[0].dense().to_vector<float>()[0], 3);
        EXPECT_EQ(sums[1].dense().to_vector<float>()[0], 10);
      }
      if (step == 7) early = worker.gradients.early_packs();
    }
    EXPECT_GE(early, 3);
  });
}

// --- Lists of variables

// What is made where other variables were is not taken for them, and nothing is kept for those.
TEST(WorkerGradients, OfVariablesThatAreGoneAreForgotten) {
  on_both(false, [](Worker& worker) {
    for (int64_t size = 2; size < 8; ++size) {
      const std::vector<Variable> fresh{Variable(zeros({size})), Variable(zeros({2 * size}))};
      const std::vector<Gradient> sums =
          worker.gradients.sum({{fill({size}, worker.rank + 1.f), fill({2 * size}, 1.f)}}, fresh);
      EXPECT_EQ(sums[0].dense().to_vector<float>(),
                std::vector<float>(static_cast<size_t>(size), 3));
      EXPECT_EQ(sums[1].dense().shape(), (Shape{2 * size}));
      EXPECT_EQ(worker.gradients.num_layouts(), 1u);
    }
  });
}

// One worker's variables live longer; the workers forget them together.
TEST(WorkerGradients, AreForgottenOnceNoWorkerCanAskForThem) {
  on_both(true, [](Worker& worker) {
    std::vector<Variable> kept;
    for (int i = 0; i < 4; ++i) {
      const std::vector<Variable> fresh{Variable(zeros({2})), Variable(zeros({3}))};
      if (worker.rank == 1 && i == 0) kept = fresh;
      if (i == 3) kept.clear();
      for (int step = 0; step < 3; ++step) {
        const Gradients own{fill({2}, 1.f), fill({3}, 2.f)};
        EXPECT_EQ(worker.gradients.sum({own}, fresh)[1].dense().to_vector<float>()[0], 4);
      }
      EXPECT_EQ(worker.gradients.num_layouts(), i == 1 || i == 2 ? 2u : 1u);
    }
  });
}

float first_of(const Gradient& gradient) { return gradient.dense().to_vector<float>()[0]; }

TEST(WorkerGradients, OfOtherVariablesAreAnErrorOnBoth) {
  on_both(false, [](Worker& worker) {
    const std::vector<Variable> two(worker.variables.begin(), worker.variables.end() - 1);
    Gradients own = worker.own();
    Gradients own_two(own.begin(), own.end() - 1);
    for (int step = 0; step < 2; ++step) {
      (void)worker.gradients.sum({own}, worker.variables);
      (void)worker.gradients.sum({own_two}, two);
    }
    const Status status = capture_status([&] {
      worker.rank == 0 ? worker.gradients.sum({own}, worker.variables)
                       : worker.gradients.sum({own_two}, two);
    });
    EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
  });
}

TEST(WorkerGradients, OfVariablesInAnotherOrderAreAnErrorOnBoth) {
  on_both(false, [](Worker& worker) {
    const Variable a(zeros({2}), {.name = "a"});
    const Variable b(zeros({2}), {.name = "b"});
    const auto list = worker.rank == 0 ? std::vector{a, b} : std::vector{b, a};
    const Status status = capture_status([&] {
      worker.gradients.sum({{ones({2}), zeros({2})}}, list);
    });
    EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
    EXPECT_NE(status.message.find("number 0 is 'a' float32 (2,) on /job:local/replica:0/task:0, "
                                  "'b' float32 (2,) on /job:local/replica:0/task:1"),
              std::string::npos)
        << status.message;
  });
}

// --- Several replicas

TEST(WorkerGradients, OfSeveralReplicasGoEarlyOnceAllHaveThem) {
  const auto add = [](const std::vector<std::vector<Gradient>>& values) {
    std::vector<Gradient> sums;
    for (const auto& each : values) sums.emplace_back(each[0].dense() + each[1].dense());
    return sums;
  };
  std::vector<Communicator> members = make_local_group(2);
  std::vector<std::jthread> threads;
  for (const Communicator& member : members) {
    threads.emplace_back([&, member] {
      const std::vector<Variable> variables{Variable(zeros({2})), Variable(zeros({3}))};
      WorkerGradients gradients(
          member,
          {.overlap = true, .communication = {.bytes_per_pack = 1}, .replicas = 2, .add = add},
          std::make_shared<GroupWaitClock>());
      const ReplicaGradients own{{fill({2}, 1.f), fill({3}, 10.f)},
                                 {fill({2}, 2.f), fill({3}, 20.f)}};
      for (int step = 0; step < 3; ++step) {
        for (const size_t replica : {size_t{0}, size_t{1}}) {
          GradientListener& listener = gradients.listener(replica);
          listener.begin(variables);
          EXPECT_EQ(gradients.early_packs(), step == 0 ? 0 : step - 1);
          listener.ready(1, own[replica][1]);
          listener.ready(0, own[replica][0]);
        }
        EXPECT_EQ(gradients.early_packs(), step);
        const std::vector<Gradient> sums = gradients.sum(own, variables);
        EXPECT_EQ(first_of(sums[0]), 6);
        EXPECT_EQ(first_of(sums[1]), 60);
      }
    });
  }
}

}  // namespace
}  // namespace cohort::internal
