// In which order fit() sees shuffled data: each pass has a number of its own.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cohort/callbacks.h"
#include "cohort/ops.h"
#include "cohort/trainer.h"
#include "support/local_workers.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

using Order = std::vector<int>;
constexpr int kSamples = 12;

data::Dataset numbers() {
  const Tensor x = reshape(cast(range(kSamples), kFloat32), {kSamples, 1});
  return data::from_tensor_slices(x, x);
}

data::Dataset shuffled(const data::ShuffleOptions& options = {}) {
  return numbers().shuffle(kSamples, options).batch(1);
}

// A trainer that notes what its model sees.
struct Rig {
  Order fit(const data::Dataset& dataset, FitOptions options = {}) {
    seen.clear();
    options.progress = false;
    trainer.fit(dataset, options);
    return seen;
  }

  nn::Dense model{1, 1};
  optim::Sgd optimizer{{.learning_rate = 0}};
  Order seen;
  Trainer trainer{model, nn::mean_squared_error, optimizer, {.input = [this](const Tensor& x) {
                    for (const float each : x.to_vector<float>()) {
                      seen.push_back(static_cast<int>(each));
                    }
                    return x;
                  }}};
};

size_t distinct(const std::vector<Order>& orders) {
  return std::set<Order>(orders.begin(), orders.end()).size();
}

TEST(Passes, CallsOfFitSeeDifferentOrders) {
  for (const data::Dataset& dataset : {shuffled(), shuffled({.seed = 5})}) {
    Rig rig;
    std::vector<Order> orders;
    for (int i = 0; i < 4; ++i) orders.push_back(rig.fit(dataset));
    EXPECT_EQ(distinct(orders), 4u);
  }
}

TEST(Passes, TrainersOfOneDatasetSeeDifferentOrders) {
  const data::Dataset dataset = shuffled();
  std::vector<Order> orders;
  for (int i = 0; i < 4; ++i) orders.push_back(Rig().fit(dataset));
  EXPECT_EQ(distinct(orders), 4u);
}

// As in a loop that calls batch() each time.
TEST(Passes, DatasetsThatShareAShuffleSeeDifferentOrders) {
  const data::Dataset shuffle = numbers().shuffle(kSamples, {.seed = 5});
  Rig rig;
  std::vector<Order> orders;
  for (int i = 0; i < 4; ++i) orders.push_back(rig.fit(shuffle.batch(1)));
  EXPECT_EQ(distinct(orders), 4u);
}

TEST(Passes, ASeedGivesTheSameSequenceHoweverTheEpochsAreDealtOut) {
  Rig rig;
  const Order expected = rig.fit(shuffled({.seed = 5}), {.epochs = 4});
  const data::Dataset again = shuffled({.seed = 5});
  Order found;
  for (const int epochs : {1, 2, 1}) {
    const Order some = rig.fit(again, {.epochs = epochs});
    found.insert(found.end(), some.begin(), some.end());
  }
  EXPECT_EQ(found, expected);
}

TEST(Passes, AShuffleThatDoesNotReshuffleHasOneOrder) {
  const data::Dataset dataset = shuffled({.seed = 5, .reshuffle_each_iteration = false});
  Rig rig;
  std::vector<Order> orders;
  for (int i = 0; i < 3; ++i) orders.push_back(rig.fit(dataset));
  EXPECT_EQ(distinct(orders), 1u);
}

// The program is started again in the middle of its second fit().
TEST(Passes, AResumedTrainingContinuesItsSequence) {
  struct Crash {};
  const auto crash_at = [](int64_t step) {
    return std::make_shared<LambdaCallback>(
        LambdaCallbacks{.on_step_end = [step](Trainer& trainer, const Logs&) {
          if (trainer.progress().step == step) throw Crash();
        }});
  };
  const auto program = [&](const std::string& directory, int64_t crash) {
    const data::Dataset dataset = shuffled({.seed = 5});
    Rig rig;
    std::vector<Order> orders;
    for (int i = 0; i < 3; ++i) {
      FitOptions options{.epochs = 2, .callbacks = {crash_at(i == 1 ? crash : -1)}};
      if (!directory.empty()) options.backup = directory + "/" + std::to_string(i);
      orders.push_back(rig.fit(dataset, options));
    }
    return orders;
  };
  const std::vector<Order> expected = program("", -1);
  const TemporaryDirectory directory;
  EXPECT_THROW(program(directory.path(), kSamples + 3), Crash);
  const std::vector<Order> found = program(directory.path(), -1);
  EXPECT_EQ(found[0], Order());  // it was finished
  EXPECT_EQ(found[1], Order(expected[1].begin() + kSamples, expected[1].end()));
  EXPECT_EQ(found[2], expected[2]);
}

// The chief has gone through the data before, by itself.
TEST(Passes, WorkersMakeTheSamePassAlthoughOneHasMadeMore) {
  std::vector<Order> seen(2);
  test::on_workers(2, [&](MultiWorkerMirroredStrategy& strategy) {
    const data::Dataset dataset = numbers()
                                      .shuffle(kSamples, {.seed = 5})
                                      .batch(2)
                                      .options({.auto_shard_policy = data::AutoShardPolicy::Data});
    if (strategy.is_chief()) Rig().fit(dataset, {.epochs = 3});
    const auto scope = strategy.scope();
    Rig rig;
    seen[static_cast<size_t>(strategy.worker_id())] = rig.fit(dataset);
  });
  Order all = seen[0];
  all.insert(all.end(), seen[1].begin(), seen[1].end());
  std::ranges::sort(all);
  Order each(kSamples);
  for (int i = 0; i < kSamples; ++i) each[static_cast<size_t>(i)] = i;
  EXPECT_EQ(all, each);
}

}  // namespace
}  // namespace cohort
