#include <fmt/format.h>

#include "base/collective_purpose.h"
#include "support/expect_error.h"
#include "support/members.h"

// Calls that one member cannot make, for its arguments, while the others make theirs.

namespace cohort {
namespace {

using std::chrono::milliseconds;

class RefusedCall : public testing::TestWithParam<GroupPlan> {
 protected:
  static std::vector<Communicator> make(int size) {
    GroupPlan plan = GetParam();
    plan.refusal_time = milliseconds(200);
    return make_group(size, plan);
  }
};

TEST_P(RefusedCall, IsNamedOnEveryMember) {
  std::vector<Communicator> group = make(5);
  // No call has a limit, so only the refusal ends the others' calls.
  const std::vector<Status> statuses = run_members(5, [&](int rank) {
    group[static_cast<size_t>(rank)].reduce_scatter(ones_of(rank == 1 ? 4 : 5));
  });
  for (size_t rank = 0; rank < statuses.size(); ++rank) {
    const Status& status = statuses[rank];
    if (rank == 1) {
      EXPECT_EQ(status.code, Code::InvalidArgument) << status.to_string();
      continue;
    }
    EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
    for (const char* const part :
         {"rank 1 (task 1) failed instead of making call 1", "do not make 5 equal parts",
          "waits for it in reduce_scatter(Sum) of float32 (5,)"}) {
      EXPECT_NE(status.message.find(part), std::string::npos) << part << " in " << status.message;
    }
  }
  EXPECT_ERROR(Code::FailedPrecondition, "rank 1 (task 1)", group[1].barrier());
}

// The other members do not take the member for a lost member, which may come back.
TEST_P(RefusedCall, IsNamedWhenTheMemberLeavesAtOnce) {
  std::vector<Communicator> group = make_group(3, GetParam());
  const std::vector<Status> statuses = run_members(3, [&](int rank) {
    Communicator& member = group[static_cast<size_t>(rank)];
    const Status status =
        capture_status([&] { member.reduce_scatter(ones_of(rank == 1 ? 4 : 3)); });
    if (rank == 1) member.close();
    throw_if_error(status);
  });
  EXPECT_EQ(statuses[1].code, Code::InvalidArgument) << statuses[1].to_string();
  for (const size_t rank : {size_t{0}, size_t{2}}) {
    EXPECT_EQ(statuses[rank].code, Code::FailedPrecondition) << statuses[rank].to_string();
    EXPECT_NE(statuses[rank].message.find("do not make 3 equal parts"), std::string::npos)
        << statuses[rank].message;
  }
}

// One of them is late with the next call, for longer than a refusal alone would be waited for.
TEST_P(RefusedCall, OfAllMembersMayBeFollowedByALateOne) {
  std::vector<Communicator> group = make(3);
  on_each(group, [](Communicator& member) {
    EXPECT_ERROR(Code::InvalidArgument, "not string", member.all_reduce(Tensor({"a"})));
    if (member.rank() == 2) std::this_thread::sleep_for(milliseconds(500));
    EXPECT_EQ(member.all_reduce(ones_of(3)).at<float>({0}), 3);
  });
}

// Rank 2 is late. The other members must not take its delay for a refused call.
TEST_P(RefusedCall, MayBeFollowedByAnotherOne) {
  std::vector<Communicator> group = make(3);
  const auto refuse_and_reduce = [&](Communicator& member) {
    if (member.rank() == 1) {
      EXPECT_ERROR(Code::InvalidArgument, "not string", member.all_reduce(Tensor({"a"})));
    }
    if (member.rank() == 2) std::this_thread::sleep_for(milliseconds(500));
    EXPECT_EQ(member.all_reduce(ones_of(3)).at<float>({0}), 3);
  };
  on_each(group, refuse_and_reduce);
}

TEST_P(RefusedCall, OfAllMembersChangesNothing) {
  std::vector<Communicator> group = make(3);
  on_each(group, [](Communicator& member) {
    EXPECT_ERROR(Code::InvalidArgument, "the ranks are 0 to 2", member.broadcast(ones_of(1), 3));
    EXPECT_ERROR(Code::InvalidArgument, "the ranks are 0 to 2",
                 member.start_broadcast(ones_of(1), -1));
    EXPECT_EQ(member.all_reduce(ones_of(3)).at<float>({0}), 3);
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, RefusedCall,
                         testing::Values(GroupPlan{.name = "Messages"},
                                         GroupPlan{.name = "SharedMemory", .share_memory = true},
                                         GroupPlan{.name = "TwoLevel", .members_per_host = 2}),
                         [](const auto& tested) { return tested.param.name; });

// --- What calls are for

// Everything else about the calls is the same.
TEST_P(RefusedCall, OfAnotherPurposeIsNamedOnEveryMember) {
  for (const bool now : {true, false}) {
    std::vector<Communicator> group = make(3);
    const std::vector<Status> statuses = run_members(3, [&](int rank) {
      const internal::CollectivePurpose purpose(rank == 1 ? "input totals" : "reduce",
                                                {rank == 1 ? "one.cc" : "two.cc", 10});
      Communicator& member = group[static_cast<size_t>(rank)];
      now ? member.all_reduce(ones_of(3)) : member.start_all_reduce(ones_of(3)).get();
    });
    for (const Status& status : statuses) {
      EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
      for (const char* const part :
           {"call 1 differs", "for reduce at two.cc:10", "for input totals at one.cc:10"}) {
        EXPECT_NE(status.message.find(part), std::string::npos) << part << " in " << status.message;
      }
    }
  }
}

// Unless COHORT_CHECK_LOCKSTEP=0 lets the lines differ.
TEST_P(RefusedCall, FromAnotherLineIsNamedOnEveryMember) {
  std::vector<Communicator> group = make(2);
  const std::vector<Status> statuses = run_members(2, [&](int rank) {
    const internal::CollectivePurpose purpose("reduce", {"/src/steps.cc", 10 + rank});
    const internal::CollectivePurpose inside("gather");
    EXPECT_EQ(group[static_cast<size_t>(rank)].all_reduce(ones_of(3)).at<float>({0}), 2);
  });
  const Code expected = internal::compares_sites() ? Code::FailedPrecondition : Code::Ok;
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code, expected) << status.to_string();
    if (status.ok()) continue;
    for (const char* const part : {"for gather at steps.cc:10", "for gather at steps.cc:11",
                                   "set COHORT_CHECK_LOCKSTEP=0 for all tasks"}) {
      EXPECT_NE(status.message.find(part), std::string::npos) << part << " in " << status.message;
    }
  }
}

TEST_P(RefusedCall, IsNotOneOfTheSameFileInAnotherDirectory) {
  std::vector<Communicator> group = make(2);
  on_each(group, [](Communicator& member) {
    const internal::CollectivePurpose purpose(
        "reduce", {member.rank() == 0 ? "/home/a/steps.cc" : "steps.cc", 10});
    EXPECT_EQ(member.all_reduce(ones_of(3)).at<float>({0}), 2);
  });
}

// As those of a member that does not compare lines.
TEST_P(RefusedCall, IsNotOneWithoutALine) {
  std::vector<Communicator> group = make(3);
  on_each(group, [](Communicator& member) {
    const internal::CollectivePurpose purpose(
        "reduce", member.rank() == 1 ? Site{} : Site{.file = "steps.cc", .line = 10});
    EXPECT_EQ(member.all_reduce(ones_of(3)).at<float>({0}), 3);
    EXPECT_EQ(member.all_gather(ones_of(1)).shape(), Shape({3}));
  });
}

}  // namespace
}  // namespace cohort
