#include "cohort/collective.h"
#include "cohort/ops.h"
#include "support/expect_error.h"
#include "support/members.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;

Tensor vector_of(float value, int64_t count = 3) {
  return Tensor::from(std::vector<float>(static_cast<size_t>(count), value));
}

TEST(Communicator, KnowsItsMembers) {
  std::vector<Communicator> group = make_local_group(3);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(group[static_cast<size_t>(rank)].rank(), rank);
    EXPECT_EQ(group[static_cast<size_t>(rank)].size(), 3);
  }
  EXPECT_EQ(group[0].member(2), "/job:local/replica:0/task:2");
  EXPECT_EQ(group[0].kind(), "shared-memory");
  EXPECT_ERROR(Code::InvalidArgument, "0 to 2", group[0].member(3));
  EXPECT_EQ(make_local_group(1)[0].kind(), "alone");
  EXPECT_ERROR(Code::InvalidArgument, "at least 1 member, got 0", make_local_group(0));
  EXPECT_ERROR(Code::FailedPrecondition, "empty communicator", Communicator().rank());
}

TEST(Communicator, RefusesWhatCanNotBeReducedBeforeItWaits) {
  std::vector<Communicator> group = make_group(2);
  Communicator& one = group[0];
  EXPECT_ERROR(Code::InvalidArgument, "use Max for any", one.all_reduce(Tensor({true})));
  EXPECT_ERROR(Code::InvalidArgument, "not string", one.all_reduce(Tensor({"a"})));
  EXPECT_ERROR(Code::InvalidArgument, "scalars", one.all_gather(Tensor(1.f)));
  EXPECT_ERROR(Code::InvalidArgument, "2 equal parts", one.reduce_scatter(vector_of(1)));
  EXPECT_ERROR(Code::InvalidArgument, "0 to 1", one.broadcast(vector_of(1), 2));
  EXPECT_ERROR(Code::InvalidArgument, "got 1 parts for 2 members", one.all_to_all({vector_of(1)}));
  EXPECT_ERROR(Code::InvalidArgument, "the part for rank 1 holds nothing",
               one.all_to_all({vector_of(1), Tensor()}));
  EXPECT_ERROR(Code::InvalidArgument, "not string", one.make_pack(kString, {{2}}));
  EXPECT_ERROR(Code::FailedPrecondition, "", one.all_reduce(Tensor()));
  const IndexedSlices rows{Tensor({{1.f}}), Tensor({int64_t{0}}), {4, 1}};
  EXPECT_ERROR(Code::InvalidArgument, "Sum and Mean", one.all_reduce(rows, ReduceOp::Max));
}

TEST(Communicator, ReducesListsOfAnyDTypes) {
  std::vector<Communicator> group = make_group(3);
  on_each(group, [](Communicator& member) {
    const auto own = static_cast<float>(member.rank() + 1);
    const std::vector<Tensor> sums = member.all_reduce(
        {Tensor(own), Tensor({{own, 2 * own}}), Tensor({static_cast<int64_t>(own)}),
         vector_of(own, 0), vector_of(own, 2 << 20), Tensor({own})});
    EXPECT_EQ(sums[0].to<float>(), 6);
    EXPECT_EQ(sums[1].shape(), (Shape{1, 2}));
    EXPECT_EQ(sums[1].to_vector<float>(), (std::vector<float>{6, 12}));
    EXPECT_EQ(sums[2].dtype(), kInt64);
    EXPECT_EQ(sums[2].to_vector<int64_t>(), std::vector<int64_t>{6});
    EXPECT_EQ(sums[3].shape(), Shape{0});
    EXPECT_EQ(sums[4].to_vector<float>(), std::vector<float>(2 << 20, 6.f));
    EXPECT_EQ(sums[5].to_vector<float>(), std::vector<float>{6});
    EXPECT_TRUE(member.all_reduce(std::vector<Tensor>{}).empty());
  });
}

TEST(Communicator, RowsComeInTheOrderOfTheRanks) {
  std::vector<Communicator> group = make_group(2);
  on_each(group, [](Communicator& member) {
    const IndexedSlices own =
        member.rank() == 0
            ? IndexedSlices{Tensor({{8.f, 0.f}}), Tensor({int64_t{2}}), {3, 2}}
            : IndexedSlices{
                  Tensor({{1.f, 1.f}, {2.f, 4.f}}), Tensor({int64_t{0}, int64_t{2}}), {3, 2}};
    const IndexedSlices sum = member.all_reduce(own);
    EXPECT_EQ(sum.indices.to_vector<int64_t>(), (std::vector<int64_t>{2, 0, 2}));
    EXPECT_EQ(sum.values.to_vector<float>(), (std::vector<float>{8, 0, 1, 1, 2, 4}));
    EXPECT_EQ(sum.dense_shape, (Shape{3, 2}));
    const IndexedSlices mean = member.all_reduce(own, ReduceOp::Mean);
    EXPECT_EQ(mean.values.to_vector<float>(), (std::vector<float>{4, 0, .5, .5, 1, 2}));
  });
}

TEST(Communicator, RefusesRowsThatDoNotFit) {
  Communicator alone = make_local_group(1)[0];
  const Tensor two_rows = ones({2, 3});
  const Tensor indices({int64_t{0}, int64_t{1}});
  const auto refuse = [&](const IndexedSlices& rows) {
    EXPECT_ERROR(Code::InvalidArgument, "are not rows of a tensor", alone.all_reduce(rows));
  };
  refuse({two_rows, Tensor({int64_t{0}}), {4, 3}});
  refuse({two_rows, Tensor({0, 1}), {4, 3}});  // int32
  refuse({two_rows, indices, {4, 2}});
  refuse({two_rows, indices, {4}});
  EXPECT_EQ(alone.all_reduce(IndexedSlices{two_rows, indices, {4, 3}}).values.size(), 6);
}

TEST(Communicator, GathersRowsWithoutElements) {
  for (const bool share : {false, true}) {
    std::vector<Communicator> group = make_group(3, {.share_memory = share});
    on_each(group, [](Communicator& member) {
      EXPECT_EQ(member.all_gather(zeros({member.rank() + 1, 0, 4})).shape(), (Shape{6, 0, 4}));
      EXPECT_EQ(member.all_gather(zeros({0, 4})).shape(), (Shape{0, 4}));
    });
  }
  EXPECT_EQ(make_local_group(1)[0].all_gather(zeros({2, 0})).shape(), (Shape{2, 0}));
}

TEST(Communicator, TakesTimesThatClocksDoNotReachAndZeroForNoLimit) {
  using std::chrono::nanoseconds;
  for (const nanoseconds no_limit : {nanoseconds::max(), nanoseconds(0)}) {
    const CommunicationOptions for_ever{.timeout = no_limit};
    std::vector<Communicator> group = make_group(2);
    on_each(group, [&](Communicator& member) {
      EXPECT_EQ(member.all_reduce(vector_of(1), ReduceOp::Sum, for_ever).at<float>({0}), 2);
      EXPECT_EQ(member.split(member.rank(), 0, for_ever).size(), 1);
    });
  }
}

TEST(Communicator, RefusesNegativeTimes) {
  constexpr auto kText = "timeout must be 0 (no limit) or positive";
  const CommunicationOptions bad{.timeout = std::chrono::nanoseconds(-1)};
  std::vector<Communicator> group = make_local_group(1);
  EXPECT_ERROR(Code::InvalidArgument, kText, group[0].barrier(bad));
  EXPECT_ERROR(Code::InvalidArgument, kText,
               group[0].all_reduce(std::vector{vector_of(1)}, ReduceOp::Sum, bad));
  EXPECT_ERROR(Code::InvalidArgument, kText, group[0].receive(0, 0, bad));
  EXPECT_ERROR(Code::InvalidArgument, kText, group[0].split(0, 0, bad));
  EXPECT_ERROR(Code::InvalidArgument, kText, group[0].subgroup({0}, bad));
  group[0].barrier();
}

TEST(Communicator, ATimeCountsFromTheCallThoughItIsNotItsTurn) {
  std::vector<Communicator> group = make_group(2);
  std::future<Tensor> first = group[0].start_all_reduce(vector_of(1));
  EXPECT_ERROR(Code::DeadlineExceeded, "call 2, barrier",
               group[0].barrier({.timeout = milliseconds(50)}));
  EXPECT_ERROR(Code::DeadlineExceeded, "it is in call 1, all_reduce", first.get());
}

TEST(Communicator, StartedCallsRunInTheOrderOfAllCalls) {
  std::vector<Communicator> group = make_local_group(3);
  on_each(group, [](Communicator& member) {
    const auto own = static_cast<float>(member.rank());
    Pack pack = member.make_pack(kFloat32, {{2}});
    pack.write(0, Tensor({own, own}));
    std::future<Tensor> sum = member.start_all_reduce(vector_of(own));
    std::future<void> packed = member.start_all_reduce(pack, ReduceOp::Max);
    std::future<Tensor> sent = member.start_broadcast(vector_of(own), 2);
    const Tensor product = member.all_reduce(vector_of(own + 1), ReduceOp::Product);
    std::future<Tensor> all = member.start_all_gather(Tensor({own}));
    EXPECT_EQ(product.to_vector<float>(), std::vector<float>(3, 6.f));
    EXPECT_EQ(sum.get().to_vector<float>(), std::vector<float>(3, 3.f));
    packed.get();
    EXPECT_EQ(pack.read(0).to_vector<float>(), std::vector<float>(2, 2.f));
    EXPECT_EQ(sent.get().to_vector<float>(), std::vector<float>(3, 2.f));
    EXPECT_EQ(all.get().to_vector<float>(), (std::vector<float>{0, 1, 2}));
  });
}

TEST(Communicator, AFutureCanBeWaitedForSomeTimeOnly) {
  std::vector<Communicator> group = make_local_group(2);
  std::future<Tensor> early = group[0].start_all_reduce(vector_of(1));
  EXPECT_EQ(early.wait_for(milliseconds(20)), std::future_status::timeout);
  EXPECT_EQ(group[1].all_reduce(vector_of(2)).to_vector<float>(), std::vector<float>(3, 3.f));
  EXPECT_EQ(early.get().to_vector<float>(), std::vector<float>(3, 3.f));
}

TEST(Communicator, ThreadsOfOneMemberTakeTurns) {
  std::vector<Communicator> group = make_local_group(2);
  on_each(group, [](Communicator& member) {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int time = 0; time < 50; ++time) {
          EXPECT_EQ(member.all_reduce(vector_of(1)).at<float>({0}), 2);
        }
      });
    }
  });
}

TEST(Communicator, SendsFromOneMemberToAnother) {
  std::vector<Communicator> group = make_group(3);
  on_each(group, [](Communicator& member) {
    if (member.rank() == 0) {
      member.send(Tensor({"a", "b"}), 2, 7);
      member.send(vector_of(1), 2);
      member.send(vector_of(2), 2);
    } else if (member.rank() == 2) {
      EXPECT_EQ(member.receive(0).at<float>({0}), 1);
      EXPECT_EQ(member.receive(0).at<float>({0}), 2);
      EXPECT_EQ(member.receive(0, 7).to_vector<std::string>(),
                (std::vector<std::string>{"a", "b"}));
    }
  });
  EXPECT_ERROR(Code::DeadlineExceeded, "tag 9 from rank 1 (task 1)",
               group[0].receive(1, 9, {.timeout = milliseconds(10)}));
}

TEST(Communicator, SendsToItself) {
  Communicator alone = make_local_group(1)[0];
  for (int i = 0; i < 2; ++i) alone.send(Tensor(i), 0, 7);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(alone.receive(0, 7).to<int>(), i);
}

TEST(Communicator, SplitsByColourAndKey) {
  std::vector<Communicator> group = make_local_group(5);
  on_each(group, [](Communicator& member) {
    Communicator part = member.split(member.rank() % 2, -member.rank());
    EXPECT_EQ(part.size(), member.rank() % 2 == 0 ? 3 : 2);
    EXPECT_EQ(part.member(part.rank()), member.member(member.rank()));
    const auto own = static_cast<float>(member.rank());
    const std::vector<float> expected =
        member.rank() % 2 == 0 ? std::vector<float>{4, 2, 0} : std::vector<float>{3, 1};
    EXPECT_EQ(part.all_gather(Tensor({own})).to_vector<float>(), expected);
    EXPECT_EQ(member.all_reduce(Tensor(own)).to<float>(), 10);
  });
}

TEST(Communicator, MakesGroupsOfSomeRanks) {
  std::vector<Communicator> group = make_local_group(4);
  on_each(group, [](Communicator& member) {
    if (member.rank() == 1) return;
    for (int time = 0; time < 2; ++time) {
      Communicator part = member.subgroup({3, 0, 2});
      const auto own = static_cast<float>(member.rank());
      EXPECT_EQ(part.all_gather(Tensor({own})).to_vector<float>(), (std::vector<float>{3, 0, 2}));
    }
  });
  EXPECT_ERROR(Code::InvalidArgument, "including 1", group[1].subgroup({0, 2}));
  EXPECT_ERROR(Code::InvalidArgument, "got 1, 1", group[1].subgroup({1, 1}));
  EXPECT_ERROR(Code::InvalidArgument, "got 1, 9", group[1].subgroup({1, 9}));
}

TEST(Communicator, ResultsThatSomebodyHoldsStay) {
  std::vector<Communicator> group = make_local_group(2);
  on_each(group, [](Communicator& member) {
    for (const int64_t length : {int64_t{3}, int64_t{1000}, int64_t{100000}}) {
      std::vector<Tensor> held;
      for (int time = 0; time < 6; ++time) {
        held.push_back(member.all_reduce(vector_of(static_cast<float>(time), length)));
        member.all_reduce(vector_of(100, length));  // the program drops this result
      }
      for (size_t time = 0; time < held.size(); ++time) {
        EXPECT_EQ(held[time].at<float>({length - 1}), 2 * static_cast<float>(time));
      }
    }
  });
}

TEST(Communicator, CalibrationChangesNoResult) {
  for (const bool share : {false, true}) {
    std::vector<Communicator> group = make_group(3, {.share_memory = share});
    on_each(group, [](Communicator& member) {
      member.calibrate();
      EXPECT_EQ(member.all_reduce(vector_of(1, 5000)).to_vector<float>(),
                std::vector<float>(5000, 3.f));
    });
  }
}

TEST(Pack, HasElementsToWriteAndTensorsToRead) {
  std::vector<Communicator> group = make_local_group(1);
  Pack pack = group[0].make_pack(kFloat32, {{2, 2}, {3}});
  EXPECT_EQ(pack.size(), 2u);
  EXPECT_EQ(pack.dtype(), kFloat32);
  EXPECT_EQ(pack.shape(0), (Shape{2, 2}));
  EXPECT_FALSE(pack.is_shared());
  EXPECT_EQ(pack.read(1).to_vector<float>(), std::vector<float>(3, 0.f));
  pack.data<float>(0)[3] = 5;
  EXPECT_EQ(pack.view(0).to_vector<float>(), (std::vector<float>{0, 0, 0, 5}));
  EXPECT_ERROR(Code::InvalidArgument, "float32, not int32", pack.data<int32_t>(0));
  EXPECT_ERROR(Code::InvalidArgument, "tensor 2 does not exist", pack.data<float>(2));
  EXPECT_ERROR(Code::InvalidArgument, "(3,)", pack.write(1, Tensor({1.f})));
  EXPECT_ERROR(Code::FailedPrecondition, "holds nothing", Pack().size());
  Pack integers = group[0].make_pack(kInt32, {{2}});
  EXPECT_ERROR(Code::InvalidArgument, "does not fit",
               group[0].all_reduce(integers, ReduceOp::Mean));
}

TEST(Pack, IsOfOneGroup) {
  std::vector<Communicator> group = make_group(2, {.share_memory = true});
  on_each(group, [](Communicator& member) {
    Pack pack = member.make_pack(kFloat32, {{2}});
    Communicator other = member.subgroup({0, 1});
    EXPECT_ERROR(Code::InvalidArgument, "made by another group", other.all_reduce(pack));
    member.all_reduce(pack);
  });
}

TEST(Pack, OutlivesItsGroup) {
  std::vector<Communicator> group = make_local_group(2);
  Pack kept;
  on_each(group, [&](Communicator& member) {
    Pack pack = member.make_pack(kFloat32, {{100}});
    for (float& value : pack.data<float>(0)) value = 1;
    member.all_reduce(pack);
    if (member.rank() == 0) kept = pack;
  });
  group.clear();
  EXPECT_EQ(kept.read(0).to_vector<float>(), std::vector<float>(100, 2.f));
}

}  // namespace
}  // namespace cohort
