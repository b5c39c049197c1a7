#include "collectives/collective_group.h"

#include <fmt/format.h>

#include <atomic>
#include <future>
#include <map>
#include <set>

#include "base/activity.h"
#include "support/eventually.h"
#include "support/expect_error.h"
#include "support/members.h"

// What happens when members do not do the same, or do not do anything any more.

namespace cohort {
namespace {

using std::chrono::milliseconds;

class Group : public testing::TestWithParam<bool> {
 protected:
  static std::vector<Communicator> make(int size, milliseconds report_after = milliseconds(5000)) {
    return make_group(size, {.share_memory = GetParam(), .report_after = report_after});
  }
};

// Each member gets one error that names both calls and ranks, now or with the next call.
void expect_difference(std::vector<Communicator> group,
                       const std::function<void(Communicator&)>& body, const std::string& one,
                       const std::string& other) {
  // No call has a limit, so only the comparison of the calls ends them.
  const std::vector<Status> statuses = run_members(static_cast<int>(group.size()), [&](int rank) {
    body(group[static_cast<size_t>(rank)]);
    group[static_cast<size_t>(rank)].barrier();
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
    EXPECT_NE(status.message.find(one), std::string::npos) << status.message;
    EXPECT_NE(status.message.find(other), std::string::npos) << status.message;
    EXPECT_NE(status.message.find("rank 1 (task 1)"), std::string::npos) << status.message;
  }
}

TEST_P(Group, DifferentShapesAreAnErrorEverywhere) {
  expect_difference(
      make(4), [](Communicator& member) { member.all_reduce(ones_of(member.rank() == 1 ? 4 : 3)); },
      "all_reduce(Sum) of float32 (4,)", "all_reduce(Sum) of float32 (3,)");
}

TEST_P(Group, DifferentDTypesAreAnErrorEverywhere) {
  expect_difference(
      make(3),
      [](Communicator& member) {
        if (member.rank() == 1) {
          member.all_reduce(Tensor({1, 2, 3}));
        } else {
          member.all_reduce(ones_of(3));
        }
      },
      "int32 (3,)", "float32 (3,)");
}

TEST_P(Group, DifferentReductionsAreAnErrorEverywhere) {
  expect_difference(
      make(2),
      [](Communicator& member) {
        member.all_reduce(ones_of(3), member.rank() == 1 ? ReduceOp::Max : ReduceOp::Sum);
      },
      "all_reduce(Max)", "all_reduce(Sum)");
}

TEST_P(Group, DifferentOperationsAreAnErrorEverywhere) {
  expect_difference(
      make(5),
      [](Communicator& member) {
        if (member.rank() == 1) {
          member.all_to_all(std::vector<Tensor>(5, ones_of(1)));
        } else {
          member.all_reduce(ones_of(3));
        }
      },
      "all_to_all", "all_reduce(Sum) of float32 (3,)");
}

TEST_P(Group, DifferentRootsAreAnErrorEverywhere) {
  expect_difference(
      make(2), [](Communicator& member) { member.broadcast(ones_of(3), 1 - member.rank()); },
      "broadcast(from rank 0)", "broadcast(from rank 1)");
}

TEST_P(Group, ListsOfOtherShapesAreAnErrorEverywhere) {
  expect_difference(
      make(3),
      [](Communicator& member) {
        const Tensor two = member.rank() == 1 ? Tensor({{1.f, 2.f}}) : Tensor({1.f, 2.f});
        member.all_reduce(std::vector<Tensor>{ones_of(3), two});
      },
      "2 tensors of float32: (3,), (2,)", "2 tensors of float32: (3,), (1, 2)");
}

TEST_P(Group, PacksOfOtherShapesAreAnErrorEverywhere) {
  expect_difference(
      make(3),
      [](Communicator& member) {
        member.make_pack(kFloat32, {member.rank() == 1 ? Shape{2, 3} : Shape{3, 2}, {4}});
      },
      "make_pack of 2 tensors of float32: (2, 3), (4,)", "float32: (3, 2), (4,)");
}

TEST_P(Group, DifferentPacksAreAnErrorEverywhere) {
  std::vector<Communicator> group = make(3);
  std::vector<std::vector<Pack>> packs(3);
  on_each(group, [&](Communicator& member) {
    for (int i = 0; i < 2; ++i) {
      packs[static_cast<size_t>(member.rank())].push_back(member.make_pack(kFloat32, {{4}}));
    }
  });
  expect_difference(
      group,
      [&](Communicator& member) {
        member.all_reduce(packs[static_cast<size_t>(member.rank())][member.rank() == 1 ? 1 : 0]);
      },
      "the pack of call 1", "the pack of call 2");
}

TEST_P(Group, OneCallMoreIsAnErrorWhenTheOthersLeave) {
  std::vector<Communicator> group = make(3);
  const std::vector<Status> statuses = run_members(3, [&](int rank) {
    Communicator& member = group[static_cast<size_t>(rank)];
    member.all_reduce(ones_of(3));
    if (rank == 1) member.all_reduce(ones_of(3));
    member.close();
  });
  EXPECT_TRUE(statuses[0].ok());
  EXPECT_TRUE(statuses[2].ok());
  EXPECT_EQ(statuses[1].code, Code::Unavailable);
  EXPECT_NE(statuses[1].message.find("has left the group, after 1 calls; rank 1 (task 1) makes "
                                     "all_reduce(Sum) of float32 (3,), and all workers must make"),
            std::string::npos)
      << statuses[1].message;
}

TEST_P(Group, WhoLeavesDoesNotDisturbCallsThatItHasDone) {
  for (int time = 0; time < 20; ++time) {
    std::vector<Communicator> group = make(4);
    const std::vector<Status> statuses = run_members(4, [&](int rank) {
      Communicator member = std::move(group[static_cast<size_t>(rank)]);
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(member.all_reduce(ones_of(100)).at<float>({99}), 4);
        member.broadcast(ones_of(100), i);
      }
    });
    for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.to_string();
  }
}

TEST_P(Group, AMemberLeavesWithItsLastCommunicatorEvenWhileAConnectionHoldsTheGroup) {
  std::vector<Communicator> group = make(2);
  const auto held = internal::CollectiveAccess::group(group[0]).shared_from_this();
  group[0] = {};
  EXPECT_ERROR(Code::Unavailable, "has left the group, after 0 calls", group[1].barrier());
}

TEST_P(Group, ACallThatTakesTooLongNamesWhoIsMissing) {
  std::vector<Communicator> group = make(2);
  EXPECT_ERROR(Code::DeadlineExceeded, "rank 1 (task 1) did not come",
               group[0].all_reduce(ones_of(3), ReduceOp::Sum, {.timeout = milliseconds(100)}));
  // What rank 0 sent before it gave up may be enough for this call; it is not for the next one.
  (void)capture_status([&] { group[1].all_reduce(ones_of(3)); });
  EXPECT_ERROR(Code::DeadlineExceeded, "the group is closed", group[1].all_reduce(ones_of(3)));
}

TEST_P(Group, AFailureOfOneMemberIsTheCauseEverywhere) {
  std::vector<Communicator> group = make(3);
  internal::CollectiveAccess::group(group[1]).fail(
      {.code = Code::Aborted, .message = "out of memory", .origin = "task 1"});
  for (Communicator& member : group) {
    const Status status = error_of([&] {
      for (;;) member.all_reduce(ones_of(3), ReduceOp::Sum, {.timeout = std::chrono::seconds(5)});
    });
    EXPECT_EQ(status.code, Code::Aborted);
    EXPECT_EQ(status.message, "out of memory");
    EXPECT_EQ(status.origin, "task 1");
  }
}

// Waits until that many members have logged for whom they wait.
bool await_reports(size_t count) {
  return test::eventually([&] { return internal::local_activity().waits.size() >= count; });
}

TEST_P(Group, ALongWaitSaysWhoIsMissingAndWhatItDoes) {
  std::vector<Communicator> group = make(2, milliseconds(50));
  on_each(group, [](Communicator& member) { member.broadcast(ones_of(7), 0); });
  testing::internal::CaptureStderr();
  std::future<Tensor> waiting = group[0].start_all_reduce(ones_of(3));
  EXPECT_TRUE(await_reports(1));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("call 2, all_reduce(Sum) of float32 (3,): rank 0 (task 0) waits for rank 1 "
                     "(task 1)"),
            std::string::npos)
      << log;
  EXPECT_NE(log.find("; it finished call 1, broadcast(from rank 0) of float32 (7,)"),
            std::string::npos)
      << log;
  group[1].all_reduce(ones_of(3));
  waiting.get();
}

// Most members wait for one that itself waits.
void expect_named(const std::vector<Status>& statuses, const std::set<int>& missing) {
  for (size_t rank = 0; rank < statuses.size(); ++rank) {
    if (missing.contains(static_cast<int>(rank))) continue;
    const Status& status = statuses[rank];
    EXPECT_EQ(status.code, Code::DeadlineExceeded) << status.to_string();
    for (size_t other = 0; other < statuses.size(); ++other) {
      const std::string text = fmt::format("rank {} (task {}) did not come", other, other);
      EXPECT_EQ(status.message.find(text) != std::string::npos,
                missing.contains(static_cast<int>(other)))
          << status.message;
    }
    EXPECT_NE(status.message.find("it finished call"), std::string::npos) << status.message;
  }
}

std::vector<Status> reduce_without(std::vector<Communicator>& group, const std::set<int>& missing) {
  return run_members(static_cast<int>(group.size()), [&](int rank) {
    if (missing.contains(rank)) return;
    group[static_cast<size_t>(rank)].all_reduce(ones_of(3), ReduceOp::Sum,
                                                {.timeout = milliseconds(400)});
  });
}

TEST_P(Group, ATimeoutNamesWhoIsMissingAndNotWhoWaits) {
  for (const std::set<int>& missing : {std::set<int>{2}, std::set<int>{1, 5}}) {
    std::vector<Communicator> group = make(7);
    on_each(group, [](Communicator& member) { member.barrier(); });
    expect_named(reduce_without(group, missing), missing);
  }
}

TEST(TwoLevelGroup, ATimeoutNamesWhoIsMissingOnAnotherHost) {
  std::vector<Communicator> group = make_group(6, {.members_per_host = 2});
  on_each(group, [](Communicator& member) { member.barrier(); });
  expect_named(reduce_without(group, {3}), {3});
}

TEST_P(Group, WhoIsInTheCallIsNotReported) {
  std::vector<Communicator> group = make(5, milliseconds(100));
  on_each(group, [](Communicator& member) { member.barrier(); });
  testing::internal::CaptureStderr();
  std::vector<std::future<Tensor>> waiting;
  for (const size_t rank : {0, 1, 2, 4})
    waiting.push_back(group[rank].start_all_reduce(ones_of(3)));
  EXPECT_TRUE(await_reports(4));
  group[3].all_reduce(ones_of(3));
  for (std::future<Tensor>& one : waiting) one.get();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("rank 0 (task 0) waits for rank 3 (task 3)"), std::string::npos) << log;
  for (const int rank : {0, 1, 2, 4}) {
    EXPECT_EQ(log.find(fmt::format("waits for rank {}", rank)), std::string::npos) << log;
  }
}

TEST_P(Group, ClosedGroupsRefuseCalls) {
  std::vector<Communicator> group = make(2);
  group[0].close();
  EXPECT_ERROR(Code::FailedPrecondition, "has left", group[0].barrier());
  EXPECT_ERROR(Code::Unavailable, "rank 0 (task 0) has left", group[1].barrier());
  EXPECT_ERROR(Code::Unavailable, "rank 0 (task 0) has left", group[1].receive(0));
  group[0].close();
}

INSTANTIATE_TEST_SUITE_P(Ways, Group, testing::Bool(), [](const auto& tested) {
  return tested.param ? "SharedMemory" : "Messages";
});

TEST(GroupRendezvous, NamesWhoDoesNotCome) {
  const auto members = internal::in_process_groups({{.name = "task 0"}, {.name = "task 1"}});
  const auto meet = [&] {
    internal::make_communicator(members[1], {.meeting_time = milliseconds(50)});
  };
  EXPECT_ERROR(Code::Unavailable, "rank 0 (task 0) did not come", meet());
}

// Asks before each message whether it goes out. The question may wait.
class AskingConnection : public internal::Connection {
 public:
  AskingConnection(std::shared_ptr<internal::Connection> inner, std::function<bool()> goes_out)
      : inner_(std::move(inner)), goes_out_(std::move(goes_out)) {}

  void start(Events events) override { inner_->start(std::move(events)); }
  void send(internal::Message message) override {
    if (goes_out_()) inner_->send(std::move(message));
  }
  void post(internal::Message message) override { send(std::move(message)); }
  bool deliver_until(const std::function<bool()>& done, internal::Deadline deadline) override {
    return inner_->deliver_until(done, deadline);
  }
  void wake() override { inner_->wake(); }
  void close(const Status& why) override { inner_->close(why); }
  const internal::Peer& peer() const override { return inner_->peer(); }
  std::string_view kind() const override { return inner_->kind(); }
  internal::Traffic traffic() const override { return inner_->traffic(); }

 private:
  const std::shared_ptr<internal::Connection> inner_;
  const std::function<bool()> goes_out_;
};

// The connections of a member, whichever side opened them.
class AskingConnections : public internal::MemberConnections {
 public:
  using GoesOut = std::function<bool(int to)>;
  AskingConnections(std::shared_ptr<internal::MemberConnections> inner, GoesOut goes_out)
      : inner_(std::move(inner)), goes_out_(std::move(goes_out)) {}

  void listen(Accept accept) override {
    inner_->listen([this, accept = std::move(accept)](int rank, auto connection) {
      accept(rank, asking(rank, std::move(connection)));
    });
  }
  std::shared_ptr<internal::Connection> connect(int rank, internal::Deadline deadline,
                                                const std::function<bool()>& is_wanted) override {
    return asking(rank, inner_->connect(rank, deadline, is_wanted));
  }
  void close(int rank) {
    const std::lock_guard lock(mutex_);
    for (const auto& connection : open_[rank]) {
      connection->close({.code = Code::Unavailable, .message = "killed"});
    }
  }

 private:
  std::shared_ptr<internal::Connection> asking(int rank,
                                               std::shared_ptr<internal::Connection> connection) {
    const std::lock_guard lock(mutex_);
    open_[rank].push_back(std::make_shared<AskingConnection>(
        std::move(connection), [this, rank] { return goes_out_(rank); }));
    return open_[rank].back();
  }

  const std::shared_ptr<internal::MemberConnections> inner_;
  const GoesOut goes_out_;
  std::mutex mutex_;
  std::map<int, std::vector<std::shared_ptr<internal::Connection>>> open_;  // guarded by mutex_
};

// Four members, of which member 2 dies and tells nobody. Member 0 notices it, and the thread that
// then sends this to member 1 is held until the end of the test.
class LossThatIsToldLate : public testing::Test {
 protected:
  LossThatIsToldLate() {
    std::vector<internal::Group> members = internal::in_process_groups(
        {{.name = "task 0"}, {.name = "task 1"}, {.name = "task 2"}, {.name = "task 3"}});
    for (size_t rank = 0; rank < members.size(); ++rank) {
      connections_.push_back(std::make_shared<AskingConnections>(
          members[rank].connections, [this, rank](int to) { return goes_out(rank, to); }));
      members[rank].connections = connections_.back();
    }
    group_ = make_group(std::move(members), {});
    // Each member has a connection with each.
    on_each(group_,
            [](Communicator& member) { member.all_to_all(std::vector<Tensor>(4, ones_of(1))); });
  }
  void TearDown() override {
    released_.set_value();
    group_.clear();
  }

  void lose_member_2() {
    is_dead_ = true;
    holds_ = true;
    connections_[2]->close(0);
    reached_.get_future().wait();
  }
  Status error_of_member_1() {
    return error_of([this] { group_[1].barrier(); });
  }

  std::atomic<bool> cuts_3_from_1_ = false;
  std::vector<Communicator> group_;

 private:
  bool goes_out(size_t from, int to) {
    if (from == 0 && to == 1 && holds_.exchange(false)) {
      reached_.set_value();
      released_.get_future().wait();
    }
    if (from == 2) return !is_dead_;
    return from != 3 || to != 1 || !cuts_3_from_1_;
  }

  std::atomic<bool> is_dead_ = false, holds_ = false;
  std::promise<void> reached_, released_;
  std::vector<std::shared_ptr<AskingConnections>> connections_;  // by rank
};

TEST_F(LossThatIsToldLate, IsToldByTheMemberWhenItLeaves) {
  lose_member_2();
  group_[0] = {};
  const Status status = error_of_member_1();
  EXPECT_EQ(status.origin, "task 2") << status.to_string();
}

// Member 1 learns from member 0 alone that member 3 has left.
TEST_F(LossThatIsToldLate, IsToldBeforeTheLeavingOfAnother) {
  cuts_3_from_1_ = true;
  lose_member_2();
  group_[3] = {};
  const Status status = error_of_member_1();
  EXPECT_EQ(status.origin, "task 2") << status.to_string();
}

TEST(TwoLevelGroup, ClosesOnAllLevels) {
  std::vector<Communicator> group = make_group(4, {.members_per_host = 2});
  EXPECT_EQ(group[0].kind(), "two-level");
  const std::vector<Status> statuses = run_members(4, [&](int rank) {
    Communicator& member = group[static_cast<size_t>(rank)];
    if (rank == 3) return member.close();
    for (;;) member.all_reduce(ones_of(3));
  });
  for (const int rank : {0, 1, 2}) {
    EXPECT_EQ(statuses[static_cast<size_t>(rank)].code, Code::Unavailable)
        << statuses[static_cast<size_t>(rank)].to_string();
  }
}

}  // namespace
}  // namespace cohort
