#include "distribute/worker_gradients.h"

#include <gtest/gtest.h>

#include <thread>

#include "cohort/ops.h"

namespace cohort::internal {
namespace {

// Three variables, and the gradients of one worker for them.
struct Worker {
  explicit Worker(const Communicator& member, bool overlap)
      : rank(member.rank()),
        gradients(member, overlap, {.bytes_per_pack = 1}, std::make_shared<MeetingClock>()) {}

  Gradients own(float scale = 1) const {
    const auto value = static_cast<float>(rank + 1) * scale;
    return {fill({2}, value), fill({3}, 10 * value), fill({4}, 100 * value)};
  }
  // As a tape does that finds them in this order.
  void announce(const Gradients& found, const std::vector<size_t>& order) {
    gradients.begin(variables);
    for (const size_t i : order) gradients.ready(i, found[i]);
  }
  float sum_of(const Gradients& applied, size_t index) {
    return gradients.sum(applied, variables)[index].dense().to_vector<float>()[0];
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

}  // namespace
}  // namespace cohort::internal
