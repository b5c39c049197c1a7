#include <cohort/torch.h>
#include <gtest/gtest.h>

#include <thread>

#include "tensor/aten.h"
#include "tensor/memory.h"

namespace cohort::internal {
namespace {

Tensor small_pair(float a, float b) {
  const WritableTensor made = make_small(kFloat32, {2});
  reinterpret_cast<float*>(made.data)[0] = a;
  reinterpret_cast<float*>(made.data)[1] = b;
  return made.tensor;
}

bool is_plain(const Tensor& tensor) {
  return plain_bytes(static_cast<const NumericBody&>(body(tensor))) != nullptr;
}

TEST(SmallTensor, ReadsLikeAnyOther) {
  const Tensor pair = small_pair(1.5f, -2);
  EXPECT_EQ(pair.shape(), Shape({2}));
  EXPECT_EQ(pair.to_vector<double>(), (std::vector<double>{1.5, -2}));
  EXPECT_EQ(pair.at<int>({-1}), -2);
  EXPECT_EQ(pair.data<float>()[0], 1.5f);
  EXPECT_TRUE(is_plain(pair));
  EXPECT_EQ(format_values(pair), "[ 1.5 -2. ]");
}

TEST(SmallTensor, SizeIsBounded) {
  EXPECT_TRUE(is_small(kFloat32, 8));
  EXPECT_FALSE(is_small(kFloat32, 9));
  EXPECT_TRUE(is_small(kFloat64, 4));
  EXPECT_FALSE(is_small(kFloat64, 5));
  EXPECT_TRUE(is_small(kBool, 32));
  EXPECT_FALSE(is_small(kString, 1));
  EXPECT_FALSE(is_small(kInt8, INT64_MAX));
}

TEST(SmallTensor, NumbersAreSmallAndWeak) {
  EXPECT_TRUE(is_plain(Tensor(2.f)));
  EXPECT_TRUE(body(Tensor(2.f)).weak);
  const float value = 2;
  const Tensor strong = Tensor::from(std::span<const float>(&value, 1), Shape{});
  EXPECT_TRUE(is_plain(strong));
  EXPECT_FALSE(body(strong).weak);
}

TEST(SmallTensor, TorchsTensorIsTheValueOnceItExists) {
  const Tensor pair = small_pair(1, 2);
  const Tensor copy = pair;
  const at::Tensor theirs = pair;
  EXPECT_FALSE(is_plain(pair));
  EXPECT_EQ(theirs.data_ptr(), static_cast<at::Tensor>(copy).data_ptr());
  EXPECT_EQ(static_cast<const void*>(pair.data<float>().data()), theirs.data_ptr());
  theirs.add_(1);
  EXPECT_EQ(copy.to_vector<float>(), (std::vector<float>{2, 3}));
}

TEST(SmallTensor, TorchsTensorIsMadeOnceForAllThreads) {
  for (int round = 0; round < 50; ++round) {
    const Tensor pair = small_pair(1, 2);
    std::vector<const void*> seen(4);
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < seen.size(); ++i) {
      threads.emplace_back([&, i] {
        EXPECT_EQ(pair.to_vector<float>(), (std::vector<float>{1, 2}));
        seen[i] = aten(pair).data_ptr();
      });
    }
    threads.clear();
    for (const void* data : seen) EXPECT_EQ(data, seen[0]);
  }
}

TEST(SmallTensor, MovesToOtherDevices) {
  ensure_cpu_devices(2);
  const Tensor there = on_device(small_pair(1, 2), find_device("CPU:1"));
  EXPECT_NE(there.device().find("CPU:1"), std::string::npos);
  EXPECT_EQ(there.to_vector<float>(), (std::vector<float>{1, 2}));
}

struct Borrowed {
  std::shared_ptr<std::vector<float>> memory = std::make_shared<std::vector<float>>(40, 1.5f);
  Tensor tensor =
      borrow_memory(reinterpret_cast<const std::byte*>(memory->data()), kFloat32, {8, 5}, memory);
};

TEST(BorrowedMemory, IsReadWhereItLies) {
  const Borrowed borrowed;
  EXPECT_EQ(borrowed.tensor.shape(), Shape({8, 5}));
  EXPECT_EQ(borrowed.tensor.data<float>().data(), borrowed.memory->data());
  EXPECT_EQ(borrowed.tensor.at<float>({7, 4}), 1.5f);
  const at::Tensor theirs = borrowed.tensor;
  EXPECT_EQ(theirs.data_ptr(), borrowed.memory->data());
  EXPECT_EQ(theirs.sizes(), (at::IntArrayRef{8, 5}));
  EXPECT_EQ(borrowed.tensor.data<float>().data(), borrowed.memory->data());
}

TEST(BorrowedMemory, IsLetGoWithTheLastTensorOfIt) {
  Borrowed borrowed;
  Tensor shared = share_memory(borrowed.tensor);
  EXPECT_NE(TensorAccess::id(shared), TensorAccess::id(borrowed.tensor));
  at::Tensor theirs = shared;
  borrowed.tensor = Tensor();
  shared = Tensor();
  EXPECT_EQ(theirs.data_ptr(), borrowed.memory->data());
  EXPECT_GT(borrowed.memory.use_count(), 1);
  theirs.reset();
  EXPECT_EQ(borrowed.memory.use_count(), 1);
}

TEST(BorrowedMemory, IsSharedWithoutATensorOfTorch) {
  const Borrowed borrowed;
  const Tensor shared = share_memory(borrowed.tensor);
  EXPECT_TRUE(is_plain(shared));
  EXPECT_EQ(shared.data<float>().data(), borrowed.memory->data());
  const Tensor value = Tensor::from(std::vector<float>(100, 2.f));
  const Tensor same = share_memory(value);
  EXPECT_EQ(same.data<float>().data(), value.data<float>().data());
}

}  // namespace
}  // namespace cohort::internal
