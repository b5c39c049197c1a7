#include "distribute/replica_rendezvous.h"

#include <gtest/gtest.h>

#include <thread>

namespace cohort::internal {
namespace {

// Runs `body(replica)` in one thread for each replica.
void in_threads(ReplicaRendezvous& meeting, const std::function<void(size_t)>& body) {
  std::vector<std::thread> threads;
  for (size_t r = 0; r < meeting.size(); ++r) {
    threads.emplace_back([&, r] {
      body(r);
      meeting.leave(r);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ReplicaRendezvous, RunsOnceThenEach) {
  ReplicaRendezvous meeting(3);
  meeting.begin(nullptr);
  std::atomic<int> once{0};
  std::atomic<int> each{0};
  in_threads(meeting, [&](size_t replica) {
    for (int i = 1; i <= 200; ++i) {
      int own = static_cast<int>(replica) * 1000 + i;
      meeting.meet(
          replica, {"test", 0, &own},
          [&](std::span<void* const> owns) {
            EXPECT_EQ(each, 3 * (i - 1));
            for (size_t r = 0; r < owns.size(); ++r) {
              EXPECT_EQ(*static_cast<int*>(owns[r]), static_cast<int>(r) * 1000 + i);
            }
            ++once;
          },
          [&](std::span<void* const>) {
            EXPECT_EQ(once, i);
            ++each;
          });
      EXPECT_GE(each, 3 * i);
    }
  });
  EXPECT_EQ(once, 200);
  EXPECT_EQ(each, 600);
}

TEST(ReplicaRendezvous, LetsWhoComesLastWorkForAllBeforeTheyGoOn) {
  ReplicaRendezvous meeting(3);
  meeting.begin(nullptr);
  int worked = 0;
  in_threads(meeting, [&](size_t replica) {
    for (int i = 1; i <= 200; ++i) {
      int own = 0;
      const MergePoint::Work work = [&](std::span<void* const> owns) {
        ++worked;
        for (void* each : owns) *static_cast<int*>(each) = i;
      };
      meeting.meet(replica,
                   {.what = "test",
                    .detail = 0,
                    .own = &own,
                    .timeout = MergePoint::kDefaultTimeout,
                    .last = &work},
                   nullptr, nullptr);
      EXPECT_EQ(own, i);
    }
  });
  EXPECT_EQ(worked, 200);
}

TEST(ReplicaRendezvous, LetsNobodyPassASecondTimeBeforeAllHaveCome) {
  ReplicaRendezvous meeting(3);
  meeting.begin(nullptr);
  std::array<std::atomic<int>, 3> done{};
  in_threads(meeting, [&](size_t replica) {
    for (int i = 1; i <= 200; ++i) {
      meeting.meet(replica, {"test", 0, nullptr}, nullptr, nullptr);
      ++done[replica];
      meeting.meet_again(replica);
      for (const std::atomic<int>& each : done) EXPECT_GE(each, i);
    }
  });
}

TEST(ReplicaRendezvous, DoesNotWaitASecondTimeForOneThatHasFailed) {
  ReplicaRendezvous meeting(2);
  meeting.begin(nullptr);
  in_threads(meeting, [&](size_t replica) {
    meeting.meet(replica, {"test", 0, nullptr}, nullptr, nullptr);
    if (replica == 1) {
      meeting.fail(1, std::make_exception_ptr(std::domain_error("second")));
    } else {
      EXPECT_THROW(meeting.meet_again(0), Error);
    }
  });
}

TEST(ReplicaRendezvous, ThrowsInAllWhatOneThrowsInItsShare) {
  ReplicaRendezvous meeting(2);
  meeting.begin(nullptr);
  std::atomic<int> caught{0};
  in_threads(meeting, [&](size_t replica) {
    try {
      meeting.meet(replica, {"test", 0, nullptr}, nullptr, [&](std::span<void* const>) {
        if (replica == 1) throw std::domain_error("share");
      });
    } catch (const std::domain_error&) {
      ++caught;
    }
  });
  EXPECT_EQ(caught, 2);
}

TEST(ReplicaRendezvous, LettersMayBeReadAfterTheMeeting) {
  ReplicaRendezvous meeting(3);
  meeting.begin(nullptr);
  in_threads(meeting, [&](size_t replica) {
    for (uint64_t i = 1; i <= 2000; ++i) {
      MergePoint::Letter& own = meeting.letter(replica);
      own.signature = i * 10 + replica;
      const auto owns = meeting.meet(replica, {"test", 0, &own}, nullptr, nullptr);
      for (size_t r = 0; r < owns.size(); ++r) {
        ASSERT_EQ(static_cast<const MergePoint::Letter*>(owns[r])->signature, i * 10 + r);
      }
    }
  });
}

// A replica that is still waking up after a meeting does not wait in it any more.
TEST(ReplicaRendezvous, KnowsWhoStillWaits) {
  ReplicaRendezvous meeting(2);
  meeting.begin(nullptr);
  std::atomic<int> made{0};
  in_threads(meeting, [&](size_t replica) {
    for (int i = 1; i <= 2000; ++i) {
      meeting.meet(replica, {"test", 0, nullptr}, nullptr, nullptr);
      if (replica == 0) {
        made = i;
        meeting.announce();
      } else {
        EXPECT_TRUE(meeting.await_first([&] { return made >= i; }));
      }
    }
  });
}

TEST(ReplicaRendezvous, LetsOneRunAtATimeWhereAllAddToOneGraph) {
  ReplicaRendezvous meeting(3);
  const int graph = 0;
  meeting.begin(reinterpret_cast<const GraphBuilder*>(&graph));
  std::atomic<int> inside{0};
  std::string order;
  in_threads(meeting, [&](size_t replica) {
    ASSERT_TRUE(meeting.enter(replica));
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(++inside, 1);
      order += std::to_string(replica);
      --inside;
      meeting.meet(
          replica, {"test", 0, nullptr}, [&](std::span<void* const>) { order += 'm'; },
          [&](std::span<void* const>) { order += std::to_string(replica); });
    }
  });
  EXPECT_EQ(order, "012m012012m012012m012");
}

}  // namespace
}  // namespace cohort::internal
