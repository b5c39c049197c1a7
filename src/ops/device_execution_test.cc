#include "ops/device_execution.h"

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "cohort/simulated_gpus.h"
#include "support/expect_error.h"
#include "tensor/aten.h"
#include "tensor/memory.h"

namespace cohort {
namespace {

class OpsOnGpus : public ::testing::Test {
 protected:
  OpsOnGpus() { make_simulated_gpus(2); }
};

const std::string kCpu0 = "/job:localhost/replica:0/task:0/device:CPU:0";
const std::string kGpu0 = "/job:localhost/replica:0/task:0/device:GPU:0";
const std::string kGpu1 = "/job:localhost/replica:0/task:0/device:GPU:1";

Tensor numbers_at(const std::string& where, const Shape& shape) {
  const DeviceScope on(where);
  return reshape(range(shape.num_elements(), kFloat32), shape);
}

TEST_F(OpsOnGpus, RunOnTheDeviceOfTheScope) {
  const DeviceScope on("GPU:1");
  const Tensor x = range(100, kFloat32);
  EXPECT_EQ(x.device(), kGpu1);
  EXPECT_EQ((x * x).device(), kGpu1);
  EXPECT_EQ(shape(x).device(), kGpu1);
}

TEST_F(OpsOnGpus, RunWhereTheirInputsAreOutsideOfScopes) {
  const Tensor x = numbers_at(kGpu1, {10, 10});
  const Tensor product = matmul(x, x);
  EXPECT_EQ(product.device(), kGpu1);
  const Tensor here = numbers_at(kCpu0, {10, 10});
  EXPECT_EQ(product.to_vector<float>(), matmul(here, here).to_vector<float>());
}

TEST_F(OpsOnGpus, TakeValuesOfTheHost) {
  const Tensor x = numbers_at(kGpu0, {10, 10});
  const Tensor here = numbers_at(kCpu0, {10, 10});
  EXPECT_EQ((here + x).device(), kGpu0);
  EXPECT_EQ((x * 2.f + 1.f).to_vector<float>(), (here * 2.f + 1.f).to_vector<float>());
}

TEST_F(OpsOnGpus, InputsOfTwoGpusAreAnErrorThatNamesOpAndDevices) {
  const Tensor a = numbers_at(kGpu0, {100});
  const Tensor b = numbers_at(kGpu1, {100});
  EXPECT_ERROR(Code::InvalidArgument, "[Add] runs on GPU:0, but input 1 is on GPU:1", a + b);
  const DeviceScope on("GPU:1");
  EXPECT_ERROR(Code::InvalidArgument, "identity() in a scope of GPU:1 copies it", a * b);
  EXPECT_EQ((identity(a) * b).to_vector<float>()[3], 9.f);
}

TEST_F(OpsOnGpus, AScopeOfTheCpuBringsValuesToTheHost) {
  const Tensor x = numbers_at(kGpu0, {100});
  const DeviceScope on("CPU:0");
  EXPECT_EQ(sum(x).device(), kCpu0);
  EXPECT_EQ(identity(x).device(), kCpu0);
  EXPECT_EQ(sum(x).to<float>(), 4950.f);
}

TEST_F(OpsOnGpus, GradientsFollowTheCopies) {
  const Tensor x = numbers_at(kGpu0, {100});
  GradientTape tape;
  tape.watch(x);
  Tensor there;
  {
    const DeviceScope on("GPU:1");
    there = square(identity(x));
  }
  const Tensor here = x * 3.f;
  Tensor total = sum(here);
  {
    const DeviceScope on("GPU:0");
    total = total + sum(identity(there));
  }
  const Tensor gradient = tape.gradient(total, x).dense();
  EXPECT_EQ(gradient.device(), kGpu0);
  EXPECT_EQ(gradient.to_vector<float>()[5], 13.f);
}

TEST_F(OpsOnGpus, BridgedOnesGiveTheirResultsToTheDevice) {
  const Tensor x = numbers_at(kGpu1, {10, 10});
  const int64_t before = simulated_gpu_status("GPU:1").bridged_ops;
  const Tensor rows = gather(x, Tensor({int64_t{3}, int64_t{1}}));
  EXPECT_EQ(rows.device(), kGpu1);
  EXPECT_EQ(internal::aten(rows).device().index(), 1);
  EXPECT_EQ(rows.to_vector<float>()[0], 30.f);
  EXPECT_EQ(simulated_gpu_status("GPU:1").bridged_ops - before, 1);
}

TEST_F(OpsOnGpus, OnStringsAreBridged) {
  const DeviceScope on("GPU:0");
  const Tensor same = equal(Tensor({"a", "b"}), Tensor({"a", "c"}));
  EXPECT_EQ(same.device(), kGpu0);
  EXPECT_EQ(same.to_vector<bool>(), (std::vector<bool>{true, false}));
}

TEST_F(OpsOnGpus, RandomNumbersAreThoseOfTheCpu) {
  random::set_seed(3);
  const std::vector<float> expected = random::normal({1000}).to_vector<float>();
  random::set_seed(3);
  const DeviceScope on("GPU:0");
  EXPECT_EQ(random::normal({1000}).to_vector<float>(), expected);
}

class VariablesOnGpus : public OpsOnGpus {
 protected:
  Variable make(const std::string& where) const {
    const DeviceScope on(where);
    return Variable(range(100, kFloat32));
  }
};

TEST_F(VariablesOnGpus, AreChangedWhereTheyAre) {
  Variable v = make(kGpu1);
  EXPECT_EQ(v.device(), kGpu1);
  v.assign_add(ones({100}));
  EXPECT_EQ(v.read_value().device(), kGpu1);
  EXPECT_EQ(v.read_value().to_vector<float>()[4], 5.f);
  v.assign(fill({100}, 2.f));
  EXPECT_EQ(v.read_value().device(), kGpu1);
  v.assign_sub(numbers_at(kGpu0, {100}));
  EXPECT_EQ(v.read_value().to_vector<float>()[10], -8.f);
  EXPECT_EQ(v.read_value().device(), kGpu1);
}

TEST_F(VariablesOnGpus, AreReadOnTheDeviceOfTheScope) {
  const Variable v = make(kCpu0);
  const DeviceScope on("GPU:1");
  EXPECT_EQ(v.read_value().device(), kGpu1);
  GradientTape tape;
  const Tensor loss = sum(square(v.read_value()));
  EXPECT_EQ(tape.gradient(loss, v).dense().to_vector<float>()[7], 14.f);
}

TEST_F(VariablesOnGpus, TheirRowsAreReadAndChanged) {
  Variable table;
  {
    const DeviceScope on("GPU:0");
    table = Variable(reshape(range(100, kFloat32), {20, 5}));
  }
  table.scatter_add({ones({1, 5}), Tensor({int64_t{3}}), Shape{20, 5}});
  EXPECT_EQ(nn::embedding_lookup(table.read_value(), Tensor({int64_t{3}})).to_vector<float>()[0],
            16.f);
  EXPECT_EQ(table.read_value().device(), kGpu0);
}

std::vector<float> trained(const std::string& where, optim::Optimizer& optimizer) {
  const DeviceScope on(where);
  Variable v(range(100, kFloat32));
  for (int step = 0; step < 3; ++step) {
    GradientTape tape;
    const Tensor loss = sum(square(v.read_value() - 3.f));
    optimizer.apply_gradients({tape.gradient(loss, v)}, {v});
  }
  EXPECT_EQ(v.read_value().device(), canonical_device(where));
  return v.read_value().to_vector<float>();
}

template <typename Optimizer, typename Options>
void expect_same_training(const Options& options) {
  Optimizer here(options);
  Optimizer there(options);
  EXPECT_EQ(trained(kGpu1, there), trained(kCpu0, here));
}

TEST_F(VariablesOnGpus, AreTrainedAsOnTheCpu) {
  expect_same_training<optim::Sgd>(optim::SgdOptions{.learning_rate = 0.1, .momentum = 0.9});
  expect_same_training<optim::Adam>(optim::AdamOptions{.learning_rate = 0.1});
}

}  // namespace
}  // namespace cohort
