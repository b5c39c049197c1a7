// The programs that fix what the strategies' interface looks like, with all that they print.

#include <gtest/gtest.h>

#include <sstream>

#include "cohort/cohort.h"
#include "cohort/legacy.h"

namespace cohort {
namespace {

class Programs : public ::testing::Test {
 protected:
  // What was printed since the last call.
  std::string printed() {
    std::string text = out_.str();
    out_.str("");
    return text;
  }
  // The form of two replicas' vectors of one or two elements.
  static std::string step(const std::string& a, const std::string& b, const std::string& rest) {
    return "PerReplica:{\n  0: Tensor(" + a + ", " + rest + "),\n  1: Tensor(" + b + ", " + rest +
           ")\n}\n";
  }

  std::ostringstream out_;
  MirroredStrategy strategy{"CPU:0", "CPU:1"};
  data::Dataset dataset = data::from_tensor_slices(Tensor({5.f, 6.f, 7.f, 8.f})).batch(2);
};

const char* const kOneFloat = "shape=(1,), dtype=float32";

TEST_F(Programs, P1) {
  for (auto x : strategy.distribute_dataset(dataset)) out_ << x << '\n';
  EXPECT_EQ(printed(), step("[5.]", "[6.]", kOneFloat) + step("[7.]", "[8.]", kOneFloat));
}

TEST_F(Programs, P2) {
  for (auto x : strategy.distribute_dataset(dataset))
    out_ << strategy.run([](Tensor own) { return own * 2.0; }, x) << '\n';
  EXPECT_EQ(printed(), step("[10.]", "[12.]", kOneFloat) + step("[14.]", "[16.]", kOneFloat));
  out_ << strategy.run([] { return get_replica_context()->replica_id_in_sync_group(); }) << '\n';
  EXPECT_EQ(printed(), "PerReplica:{\n  0: 0,\n  1: 1\n}\n");
}

TEST_F(Programs, P3) {
  auto dist = strategy.distribute_dataset(dataset);
  auto it = dist.begin();
  out_ << strategy.reduce(ReduceOp::Sum, *it, /*axis=*/0) << '\n';
  EXPECT_EQ(printed(), "Tensor(11., shape=(), dtype=float32)\n");
  auto values = strategy.distribute_values_from_function([](ValueContext) {
    return Tensor({{1}, {2}});
  });
  out_ << strategy.gather(values, /*axis=*/0) << '\n';
  EXPECT_EQ(printed(), "Tensor([[1]\n [2]\n [1]\n [2]], shape=(4, 1), dtype=int32)\n");
}

TEST_F(Programs, P4) {
  out_ << has_strategy() << in_cross_replica_context() << (get_replica_context() != nullptr);
  EXPECT_EQ(printed(), "001");
  auto scope = strategy.scope();
  out_ << has_strategy() << in_cross_replica_context() << (get_replica_context() != nullptr);
  EXPECT_EQ(printed(), "110");
  out_ << strategy.run([] { return in_cross_replica_context(); }) << '\n';
  EXPECT_EQ(printed(), "0\n");
}

TEST_F(Programs, P5) {
  auto scope = strategy.scope();
  Variable x(1.f);
  out_ << x << '\n';
  EXPECT_EQ(printed(),
            "MirroredVariable:{\n"
            "  0: <Variable 'Variable:0' shape=() dtype=float32, value=1.0>,\n"
            "  1: <Variable 'Variable/replica_1:0' shape=() dtype=float32, value=1.0>\n"
            "}\n");
  Variable rows({{1}, {2}});
  out_ << strategy.gather(rows, 0) << '\n';
  EXPECT_EQ(printed(), "Tensor([[1]\n [2]\n [1]\n [2]], shape=(4, 1), dtype=int32)\n");
}

TEST_F(Programs, P5OutsideTheScope) {
  Variable x(1.f);
  out_ << x << '\n';
  EXPECT_EQ(printed(), "<Variable 'Variable:0' shape=() dtype=float32, value=1.0>\n");
}

TEST(ProgramOnOneDevice, P6) {
  std::ostringstream out;
  OneDeviceStrategy strategy("CPU:0");
  auto scope = strategy.scope();
  Variable v(1.0f);
  out << v.device() << '\n';
  int result = 0;
  for (int i = 0; i < 10; ++i) result += strategy.run([](int x) { return x * 2; }, i);
  out << result << '\n';
  EXPECT_EQ(out.str(), "/job:localhost/replica:0/task:0/device:CPU:0\n90\n");
}

TEST_F(Programs, P7) {
  auto dist = strategy.distribute_datasets_from_function([](const InputContext& input) {
    int64_t batch = input.get_per_replica_batch_size(4);
    return data::range(8).batch(4).unbatch().batch(batch).prefetch(2);
  });
  for (auto x : dist) out_ << x << '\n';
  const char* const kTwo = "shape=(2,), dtype=int64";
  EXPECT_EQ(printed(), step("[0 1]", "[2 3]", kTwo) + step("[4 5]", "[6 7]", kTwo));
}

TEST_F(Programs, P13) {
  const Tensor images = random::Generator(1).uniform({64, 20});
  const Tensor labels = random::Generator(2).randint({64}, 0, 10);
  const auto train_with = [&](Strategy& on) {
    std::vector<float> losses;
    random::set_seed(3);
    auto scope = on.scope();
    auto train = data::from_tensor_slices(images, labels);
    nn::Sequential model{nn::Dense(20, 16), nn::relu, nn::Dense(16, 10)};
    optim::Sgd optimizer({.learning_rate = 0.1});
    auto step = [&](Tensor image, Tensor label) {
      GradientTape tape;
      Tensor loss = nn::softmax_cross_entropy(model(image), label, {.global_batch_size = 16});
      optimizer.apply_gradients(tape.gradient(loss, model.variables()), model.variables());
      return loss;
    };
    for (auto batch : on.distribute_dataset(train.batch(16)))
      losses.push_back(on.reduce(ReduceOp::Sum, on.run(step, batch)).template to<float>());
    return losses;
  };
  OneDeviceStrategy one("CPU:0");
  const std::vector<float> expected = train_with(one);
  const std::vector<float> found = train_with(strategy);
  ASSERT_EQ(found.size(), 4u);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 1e-6 * expected[i]) << "step " << i;
  }
}

TEST_F(Programs, P16) {
  auto scope = strategy.scope();
  auto iterator = strategy.distribute_dataset(dataset).iterator();
  auto results = legacy::call_for_each_tower(
      strategy, [](Tensor x) { return x * legacy::get_tower_context()->num_towers(); },
      iterator.next());
  for (Tensor t : legacy::unwrap(strategy, results)) out_ << t << '\n';
  legacy::group(legacy::unwrap(strategy, results));
  EXPECT_EQ(printed(),
            "Tensor([10.], shape=(1,), dtype=float32)\nTensor([12.], shape=(1,), dtype=float32)\n");
}

}  // namespace
}  // namespace cohort
