#include "cohort/checkpoint.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/activity.h"
#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

using Floats = std::vector<float>;
using Names = std::vector<std::string>;

class CheckpointTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }
  const std::string& directory() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
};

TEST_F(CheckpointTest, SavesObjectsByPath) {
  Variable step(int64_t{3});
  nn::Sequential model{nn::Dense(2, 3), nn::relu, nn::Dense(3, 1)};
  Checkpoint checkpoint({{"model", model}, {"step", step}});
  EXPECT_EQ(checkpoint.save(path("ckpt")), path("ckpt-1"));
  const CheckpointReader reader(path("ckpt-1"));
  EXPECT_EQ(reader.read("model/0/kernel").shape(), (Shape{2, 3}));
  EXPECT_TRUE(reader.contains("model/2/bias"));
  EXPECT_EQ(reader.read("step").to<int64_t>(), 3);
  EXPECT_EQ(reader.tensors().size(), 6u);
  const Floats before = model.variables()[0].read_value().to_vector<float>();
  model.variables()[0].assign(zeros({2, 3}));
  step.assign(int64_t{9});
  checkpoint.restore(path("ckpt-1")).assert_consumed();
  EXPECT_EQ(model.variables()[0].read_value().to_vector<float>(), before);
  EXPECT_EQ(step.read_value().to<int64_t>(), 3);
}

TEST_F(CheckpointTest, CountsItsSavesAcrossRestarts) {
  Variable v(1.f);
  {
    Checkpoint checkpoint({{"v", v}});
    checkpoint.save(path("ckpt"));
    EXPECT_EQ(checkpoint.save(path("ckpt")), path("ckpt-2"));
    checkpoint.write(path("aside"));
    EXPECT_EQ(checkpoint.save_counter(), 2);
  }
  EXPECT_EQ(latest_checkpoint(directory()), path("ckpt-2"));
  EXPECT_EQ(get_checkpoint_state(directory())->all, (Names{path("ckpt-1"), path("ckpt-2")}));
  Checkpoint checkpoint({{"v", v}});
  checkpoint.read(path("aside")).assert_consumed();
  EXPECT_EQ(checkpoint.save_counter(), 0);
  checkpoint.restore(path("ckpt-2")).assert_consumed();
  EXPECT_EQ(checkpoint.save(path("ckpt")), path("ckpt-3"));
}

// One step of training on fixed data.
void train(const nn::Dense& model, optim::Optimizer& optimizer) {
  const Tensor x({{1.f, 2.f}, {3.f, -1.f}});
  optimizer.minimize([&] { return mean(square(model(x) - 1.f)); }, model.variables());
}

TEST_F(CheckpointTest, KeepsOptimizersSoThatTrainingGoesOnAsIfNeverInterrupted) {
  nn::Dense model(2, 1);
  optim::Adam optimizer({.learning_rate = 0.1});
  Checkpoint checkpoint({{"model", model}, {"optimizer", optimizer}});
  for (int i = 0; i < 3; ++i) train(model, optimizer);
  checkpoint.write(path("ckpt"));
  for (int i = 0; i < 3; ++i) train(model, optimizer);

  nn::Dense fresh(2, 1);
  optim::Adam fresh_optimizer({.learning_rate = 0.1});  // has no slots yet
  Checkpoint again({{"model", fresh}, {"optimizer", fresh_optimizer}});
  again.read(path("ckpt")).assert_consumed();
  EXPECT_EQ(fresh_optimizer.iterations().read_value().to<int64_t>(), 3);
  for (int i = 0; i < 3; ++i) train(fresh, fresh_optimizer);
  EXPECT_EQ(fresh.kernel().read_value().to_vector<float>(),
            model.kernel().read_value().to_vector<float>());
  again.read(path("ckpt")).assert_consumed();  // and into slots that exist
  for (int i = 0; i < 3; ++i) train(fresh, fresh_optimizer);
  EXPECT_EQ(fresh.kernel().read_value().to_vector<float>(),
            model.kernel().read_value().to_vector<float>());
}

int64_t next_number(data::Iterator& input) { return Tensor(input.next()).to<int64_t>(); }

TEST_F(CheckpointTest, KeepsMetricsPositionsAndBytes) {
  metrics::Mean loss("loss");
  loss.update(Tensor({1.f, 2.f}));
  const data::Dataset dataset = data::range(100).shuffle(10, {.seed = 1});
  data::Iterator input = dataset.iterator();
  for (int i = 0; i < 7; ++i) input.next();
  std::string note = "before";
  Checkpoint checkpoint(
      {{"loss", loss},
       {"input", Trackable::position(dataset, input)},
       {"note",
        Trackable::bytes([&] { return note; }, [&](const std::string& saved) { note = saved; })}});
  checkpoint.write(path("ckpt"));
  const std::vector<int64_t> expected{next_number(input), next_number(input)};
  loss.update(Tensor(100.f));
  note = "after";
  checkpoint.read(path("ckpt")).assert_consumed();
  EXPECT_EQ(next_number(input), expected[0]);
  EXPECT_EQ(next_number(input), expected[1]);
  EXPECT_EQ(loss.result().to<double>(), 1.5);
  EXPECT_EQ(note, "before");
}

TEST_F(CheckpointTest, NestsByName) {
  Variable a(1.f);
  Variable b(2.f);
  const Checkpoint inner({{"v", b}});
  Checkpoint outer({{"v", a}, {"inner", inner}});
  outer.write(path("ckpt"));
  const CheckpointReader reader(path("ckpt"));
  EXPECT_EQ(reader.read("inner/v").to<float>(), 2);
  EXPECT_EQ(reader.read("v").to<float>(), 1);
}

TEST_F(CheckpointTest, GivesObjectsTheirValueWhenTheyComeLater) {
  {
    Variable a(1.f);
    Variable b(2.f);
    Checkpoint({{"a", a}, {"b", b}}).write(path("ckpt"));
  }
  Variable a(0.f);
  Checkpoint checkpoint({{"a", a}});
  const RestoreStatus restored = checkpoint.read(path("ckpt"));
  EXPECT_ERROR(Code::FailedPrecondition, "no object took: 'b'", restored.assert_consumed());
  restored.assert_existing_objects_matched();
  const Variable b(0.f);
  checkpoint.track("b", b);
  EXPECT_EQ(b.read_value().to<float>(), 2);
  restored.assert_consumed();
  const Variable c(0.f);
  checkpoint.track("c", c);
  EXPECT_ERROR(Code::FailedPrecondition, "no values for 'c'", restored.assert_consumed());
}

TEST_F(CheckpointTest, WarnsOfWhatNobodyUsedUnlessThatIsMeant) {
  Variable a(1.f);
  Variable b(2.f);
  Checkpoint({{"a", a}, {"b", b}}).write(path("ckpt"));
  testing::internal::CaptureStderr();
  Checkpoint({{"a", a}}).read(path("ckpt"));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("did not use 'b'"), std::string::npos);
  testing::internal::CaptureStderr();
  Checkpoint({{"a", a}}).read(path("ckpt")).expect_partial();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(CheckpointTest, ChangesNothingWhenSomethingDoesNotFit) {
  {
    Variable a(5.f);
    Variable b({1.f, 2.f});
    Checkpoint({{"a", a}, {"b", b}}).write(path("ckpt"));
  }
  Variable a(0.f);
  Variable b(int64_t{1});
  EXPECT_ERROR(Code::InvalidArgument, "'b' as float32 (2,), but the object wants int64 ()",
               Checkpoint({{"a", a}, {"b", b}}).read(path("ckpt")));
  EXPECT_EQ(a.read_value().to<float>(), 0);
}

TEST_F(CheckpointTest, RefusesNamesThatAreNone) {
  Variable v(1.f);
  EXPECT_ERROR(Code::InvalidArgument, "''", Checkpoint({{"", v}}));
  EXPECT_ERROR(Code::InvalidArgument, "'a/b'", Checkpoint({{"a/b", v}}));
  EXPECT_ERROR(Code::InvalidArgument, "save_counter", Checkpoint({{"save_counter", v}}));
  EXPECT_ERROR(Code::AlreadyExists, "'v'", Checkpoint({{"v", v}, {"v", v}}));
  Checkpoint itself;
  EXPECT_ERROR(Code::InvalidArgument, "inside itself", itself.track("me", itself));
  const Checkpoint around({{"part", itself}});
  EXPECT_ERROR(Code::InvalidArgument, "inside itself", itself.track("around", around));
}

TEST_F(CheckpointTest, LeavesGraphsToSavers) {
  Graph graph;
  const auto building = graph.as_default();
  const Variable w(1.f, {.name = "w"});
  EXPECT_ERROR(Code::FailedPrecondition, "use a Saver", Checkpoint({{"w", w}}).write(path("c")));
}

TEST_F(CheckpointTest, SavesEagerVariablesWhileAGraphIsBuilt) {
  const Variable v(4.f);
  Checkpoint checkpoint({{"v", v}});
  Graph graph;
  const auto building = graph.as_default();
  checkpoint.write(path("ckpt"));
  checkpoint.read(path("ckpt")).assert_consumed();
  EXPECT_EQ(graph.size(), 0u);
}

TEST_F(CheckpointTest, TakesTheValuesOfTheMomentWhenAsynchronous) {
  Variable v(zeros({1 << 18}));
  Checkpoint checkpoint({{"v", v}}, {.asynchronous = true});
  for (int i = 0; i < 4; ++i) {
    checkpoint.save(path("ckpt"));
    v.assign_add(Tensor(1.f));
  }
  checkpoint.wait();
  for (int i = 0; i < 4; ++i) {
    const CheckpointReader reader(path("ckpt-" + std::to_string(i + 1)));
    EXPECT_EQ(reader.read("v").at<float>({-1}), static_cast<float>(i));
  }
  EXPECT_EQ(checkpoint.progress().bytes_written, checkpoint.progress().bytes_total);
}

TEST_F(CheckpointTest, CountsTheTimeInWhichTheProgramWaitsForItsSaves) {
  Variable v(zeros({1 << 18}));
  Checkpoint checkpoint({{"v", v}});
  const auto before = internal::total_saving();
  const auto began = std::chrono::steady_clock::now();
  checkpoint.save(path("ckpt"));
  const auto counted = internal::total_saving() - before;
  EXPECT_GT(counted.count(), 0);
  EXPECT_LE(counted, std::chrono::steady_clock::now() - began);
}

TEST_F(CheckpointTest, ManagersKeepTheLastFew) {
  Variable v(0.f);
  {
    CheckpointManager manager(Checkpoint({{"v", v}}), directory(), {.max_to_keep = 2});
    for (int i = 1; i <= 3; ++i) {
      v.assign(static_cast<float>(i));
      EXPECT_EQ(manager.save(), path("ckpt-" + std::to_string(i)));
    }
    EXPECT_EQ(manager.checkpoints(), (Names{path("ckpt-2"), path("ckpt-3")}));
    EXPECT_FALSE(checkpoint_exists(path("ckpt-1")));
  }
  v.assign(0.f);
  CheckpointManager manager(Checkpoint({{"v", v}}), directory(), {.max_to_keep = 2});
  EXPECT_EQ(manager.checkpoints(), (Names{path("ckpt-2"), path("ckpt-3")}));
  EXPECT_EQ(manager.restore_latest(), path("ckpt-3"));
  EXPECT_EQ(v.read_value().to<float>(), 3);
  EXPECT_EQ(manager.save(10), path("ckpt-10"));
  EXPECT_FALSE(checkpoint_exists(path("ckpt-2")));
  EXPECT_EQ(CheckpointReader(path("ckpt-10")).step(), 10);
}

TEST_F(CheckpointTest, ManagersPassOverWhatIsDamaged) {
  Variable v(0.f);
  CheckpointManager manager(Checkpoint({{"v", v}}), directory());
  EXPECT_EQ(manager.restore_latest(), std::nullopt);
  v.assign(1.f);
  manager.save();
  v.assign(2.f);
  std::ofstream(CheckpointReader(manager.save()).files()[0]) << "torn";
  EXPECT_EQ(manager.restore_latest(), path("ckpt-1"));
  EXPECT_EQ(v.read_value().to<float>(), 1);
}

TEST_F(CheckpointTest, ManagersMayGoWhileTheirSaveIsWritten) {
  const Variable v(zeros({1 << 20}));
  {
    CheckpointManager manager(Checkpoint({{"v", v}}, {.asynchronous = true}), directory());
    manager.save();
  }
  EXPECT_EQ(latest_checkpoint(directory()), path("ckpt-1"));
}

TEST_F(CheckpointTest, WhatWasSavedBeforeTheFirstUpdateSetsSlotsBack) {
  Variable w(1.f);
  optim::Adagrad optimizer({.learning_rate = 0.1});
  const auto update = [&] { optimizer.apply_gradients({Tensor(2.f)}, {w}); };
  Checkpoint checkpoint({{"w", w}, {"optimizer", optimizer}});
  const std::string saved = checkpoint.save(path("ckpt"));
  update();
  const float once = w.read_value().to<float>();
  update();
  checkpoint.restore(saved).assert_consumed();
  EXPECT_EQ(optimizer.iterations().read_value().to<int64_t>(), 0);
  update();
  EXPECT_EQ(w.read_value().to<float>(), once);
}

}  // namespace
}  // namespace cohort
