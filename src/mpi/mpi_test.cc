// What a group of MPI's members computes. mpirun starts this program; all members run the same
// tests at the same time.

#include "cohort/mpi.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "mpi/mpi_group.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;

Communicator& everybody() {
  static Communicator group = make_mpi_group({.share_memory = false});
  return group;
}

float sum_of_ranks() {
  const int size = everybody().size();
  return static_cast<float>(size * (size - 1) / 2);
}

template <typename T>
Tensor filled(size_t count, T value) {
  return Tensor::from(std::vector<T>(count, value));
}

TEST(Mpi, TalksByMpiWhereMemoryIsNotShared) {
  EXPECT_EQ(everybody().kind(), everybody().size() == 1 ? "alone" : "mpi");
  EXPECT_EQ(everybody().member(0), "/job:mpi/replica:0/task:0");
}

TEST(Mpi, SharesMemoryOnOneHost) {
  Communicator group = make_mpi_group();
  EXPECT_EQ(group.kind(), everybody().size() == 1 ? "alone" : "shared-memory");
  EXPECT_EQ(group.all_reduce(filled(3, 1.f)).at<float>({2}), static_cast<float>(group.size()));
}

template <typename T>
void expect_reductions() {
  Communicator& group = everybody();
  const auto own = static_cast<T>(group.rank());
  const auto last = static_cast<T>(group.size() - 1);
  for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}, size_t{300000}}) {
    EXPECT_EQ(group.all_reduce(filled(count, own)).template to_vector<T>(),
              std::vector<T>(count, static_cast<T>(sum_of_ranks())));
    EXPECT_EQ(group.all_reduce(filled(count, own), ReduceOp::Max).template to_vector<T>(),
              std::vector<T>(count, last));
    EXPECT_EQ(group.all_reduce(filled(count, own), ReduceOp::Min).template to_vector<T>(),
              std::vector<T>(count, T{0}));
    const Tensor mean = group.all_reduce(filled(count, own), ReduceOp::Mean);
    if (count > 0 && mean.dtype() == kFloat64) {
      EXPECT_EQ(mean.at<double>({0}), static_cast<double>(sum_of_ranks()) / group.size());
    }
  }
}

TEST(Mpi, ReducesNumbersOfEveryKind) {
  expect_reductions<float>();
  expect_reductions<double>();
  expect_reductions<int32_t>();
  expect_reductions<int64_t>();
  expect_reductions<uint8_t>();
  const Tensor half = Tensor::from(std::vector<bfloat16>(10, bfloat16(0.5f)));
  EXPECT_EQ(static_cast<float>(everybody().all_reduce(half).at<bfloat16>({9})),
            0.5f * static_cast<float>(everybody().size()));
  EXPECT_TRUE(everybody().all_reduce(Tensor({true, false}), ReduceOp::Max).at<bool>({0}));
}

TEST(Mpi, NaNIsTheSmallestAndTheLargest) {
  Communicator& group = everybody();
  const float own = group.rank() == 0 ? NAN : 1.f;
  EXPECT_TRUE(std::isnan(group.all_reduce(filled(3, own), ReduceOp::Max).at<float>({1})));
}

TEST(Mpi, HasTheOtherCalls) {
  Communicator& group = everybody();
  const auto own = static_cast<float>(group.rank());
  const auto size = static_cast<size_t>(group.size());
  const int last = group.size() - 1;
  EXPECT_EQ(group.broadcast(filled(7, own), last).to_vector<float>(),
            std::vector<float>(7, static_cast<float>(last)));
  const Tensor reduced = group.reduce(filled(7, own), ReduceOp::Sum, last);
  ASSERT_EQ(reduced.defined(), group.rank() == last);
  if (reduced.defined()) {
    EXPECT_EQ(reduced.at<float>({6}), sum_of_ranks());
  }
  const Tensor gathered = group.all_gather(filled(static_cast<size_t>(group.rank()), own));
  EXPECT_EQ(gathered.size(), static_cast<int64_t>(size * (size - 1) / 2));
  const Tensor part = group.reduce_scatter(filled(2 * size, own), ReduceOp::Sum);
  EXPECT_EQ(part.to_vector<float>(), std::vector<float>(2, sum_of_ranks()));
  const std::vector<Tensor> got = group.all_to_all(std::vector<Tensor>(size, filled(2, own)));
  EXPECT_EQ(got.back().at<float>({1}), static_cast<float>(last));
  Pack pack = group.make_pack(kFloat32, {{5}, {3}});
  for (float& value : pack.data<float>(1)) value = own;
  group.all_reduce(pack);
  EXPECT_EQ(pack.read(1).to_vector<float>(), std::vector<float>(3, sum_of_ranks()));
  group.barrier();
}

TEST(Mpi, MakesGroupsOfSomeMembers) {
  Communicator& group = everybody();
  const auto own = static_cast<float>(group.rank());
  Communicator part = group.split(group.rank() % 2);
  float expected = 0;
  for (int rank = group.rank() % 2; rank < group.size(); rank += 2) {
    expected += static_cast<float>(rank);
  }
  EXPECT_EQ(part.all_reduce(filled(3, own)).at<float>({0}), expected);
  EXPECT_EQ(group.all_reduce(filled(3, own)).at<float>({0}), sum_of_ranks());
}

TEST(Mpi, AMemberThatDoesNotFitIsAnErrorEverywhere) {
  const auto rank = static_cast<uint64_t>(everybody().rank());
  const auto expect_refused = [&](std::string_view difference, const auto& change) {
    internal::Member self{.peer = {.name = everybody().member(everybody().rank()),
                                   .incarnation = 100 + rank,
                                   .build = "1.2.3"},
                          .id = rank,
                          .workers = static_cast<uint64_t>(everybody().size()),
                          .process = "process " + std::to_string(rank)};
    EXPECT_EQ(internal::exchange_members(self)[0].process, "process 0");
    if (everybody().size() == 1) return;
    if (rank == 1) change(self);
    const Status status = error_of([&] { internal::exchange_members(self); });
    EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
    for (const std::string_view part : {std::string_view("task:0 (process 0)"),
                                        std::string_view("task:1 (process 1)"), difference}) {
      EXPECT_NE(status.message.find(part), std::string::npos) << status.to_string();
    }
  };
  using internal::Member;
  expect_refused("builds of the library, 1.2.3 and 9.9.9",
                 [](Member& member) { member.peer.build = "9.9.9"; });
  expect_refused("for collectives, the other 'nccl'",
                 [](Member& member) { member.engine = "nccl"; });
  expect_refused("the other with x", [](Member& member) { member.settings = "x"; });
  expect_refused("the other 9 workers", [](Member& member) { member.workers = 9; });
}

TEST(Mpi, DifferentCallsAreAnErrorEverywhere) {
  Communicator group = make_mpi_group({.share_memory = false});
  if (group.size() == 1) return;  // its calls differ from no one's
  const Status status = error_of([&] {
    group.all_reduce(filled(group.rank() == 1 ? 4 : 3, 1.f));
    group.barrier();
  });
  EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
  EXPECT_NE(status.message.find("float32 (4,)"), std::string::npos) << status.message;
}

// Afterwards MPI can not be used any more, and mpirun says that the program did not end it.
TEST(MpiGivenUp, ATimeoutNamesWhoIsMissing) {
  Communicator group = make_mpi_group({.share_memory = false});
  if (group.rank() == 1) {
    const Status status = error_of([&] { group.receive(0, 99); });  // until the others give up
    EXPECT_EQ(status.code, Code::DeadlineExceeded) << status.to_string();
    return;
  }
  const Status status = error_of(
      [&] { group.all_reduce(filled(3, 1.f), ReduceOp::Sum, {.timeout = milliseconds(500)}); });
  EXPECT_EQ(status.code, Code::DeadlineExceeded) << status.to_string();
  EXPECT_NE(status.message.find("rank 1 (/job:mpi/replica:0/task:1) did not come"),
            std::string::npos)
      << status.message;
  const Status later = error_of([&] { everybody().all_reduce(filled(3, 1.f)); });
  EXPECT_EQ(later.code, Code::Unavailable) << later.to_string();
}

}  // namespace
}  // namespace cohort

// Others than the first member say only what fails.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int rank = cohort::everybody().rank();
  if (rank != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    class Failures : public testing::EmptyTestEventListener {
      void OnTestPartResult(const testing::TestPartResult& result) override {
        if (result.failed())
          std::fprintf(stderr, "FAILED: %s:%d %s\n", result.file_name(), result.line_number(),
                       result.message());
      }
    };
    listeners.Append(new Failures);
  }
  return RUN_ALL_TESTS();
}
