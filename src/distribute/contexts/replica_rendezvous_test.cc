#include "distribute/contexts/replica_rendezvous.h"

#include <gtest/gtest.h>

#include <thread>

namespace cohort::internal {
namespace {

// Runs `body(replica)` in one thread for each replica.
void in_threads(ReplicaRendezvous& rendezvous, const std::function<void(size_t)>& body) {
  std::vector<std::thread> threads;
  for (size_t r = 0; r < rendezvous.size(); ++r) {
    threads.emplace_back([&, r] {
      body(r);
      rendezvous.leave(r);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ReplicaRendezvous, RunsOnceThenEach) {
  ReplicaRendezvous rendezvous(3);
  rendezvous.begin(nullptr);
  std::atomic<int> once{0};
  std::atomic<int> each{0};
  in_threads(rendezvous, [&](size_t replica) {
    for (int i = 1; i <= 200; ++i) {
      int own = static_cast<int>(replica) * 1000 + i;
      rendezvous.meet(
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
  ReplicaRendezvous rendezvous(3);
  rendezvous.begin(nullptr);
  int worked = 0;
  in_threads(rendezvous, [&](size_t replica) {
    for (int i = 1; i <= 200; ++i) {
      int own = 0;
      const ReplicaRendezvous::Work work = [&](std::span<void* const> owns) {
        ++worked;
        for (void* each : owns) *static_cast<int*>(each) = i;
      };
      rendezvous.meet(replica,
                      {.what = "test",
                       .detail = 0,
                       .own = &own,
                       .timeout = ReplicaRendezvous::kDefaultTimeout,
                       .last = &work},
                      nullptr, nullptr);
      EXPECT_EQ(own, i);
    }
  });
  EXPECT_EQ(worked, 200);
}

TEST(ReplicaRendezvous, LetsNobodyPassASecondTimeBeforeAllHaveCome) {
  ReplicaRendezvous rendezvous(3);
  rendezvous.begin(nullptr);
  std::array<std::atomic<int>, 3> done{};
  in_threads(rendezvous, [&](size_t replica) {
    for (int i = 1; i <= 200; ++i) {
      rendezvous.meet(replica, {"test", 0, nullptr}, nullptr, nullptr);
      ++done[replica];
      rendezvous.meet_again(replica);
      for (const std::atomic<int>& each : done) EXPECT_GE(each, i);
    }
  });
}

TEST(ReplicaRendezvous, DoesNotWaitASecondTimeForOneThatHasFailed) {
  ReplicaRendezvous rendezvous(2);
  rendezvous.begin(nullptr);
  in_threads(rendezvous, [&](size_t replica) {
    rendezvous.meet(replica, {"test", 0, nullptr}, nullptr, nullptr);
    if (replica == 1) {
      rendezvous.fail(std::make_exception_ptr(std::domain_error("second")));
    } else {
      EXPECT_THROW(rendezvous.meet_again(0), Error);
    }
  });
}

TEST(ReplicaRendezvous, ThrowsInAllWhatOneThrowsInItsShare) {
  ReplicaRendezvous rendezvous(2);
  rendezvous.begin(nullptr);
  std::atomic<int> caught{0};
  in_threads(rendezvous, [&](size_t replica) {
    try {
      rendezvous.meet(replica, {"test", 0, nullptr}, nullptr, [&](std::span<void* const>) {
        if (replica == 1) throw std::domain_error("share");
      });
    } catch (const std::domain_error&) {
      ++caught;
    }
  });
  EXPECT_EQ(caught, 2);
}

TEST(ReplicaRendezvous, InlineValuesMayBeReadAfterTheRendezvous) {
  ReplicaRendezvous rendezvous(3);
  rendezvous.begin(nullptr);
  in_threads(rendezvous, [&](size_t replica) {
    for (uint64_t i = 1; i <= 2000; ++i) {
      ReplicaRendezvous::InlineValue& own = rendezvous.inline_value(replica);
      own.signature = i * 10 + replica;
      const auto owns = rendezvous.meet(replica, {"test", 0, &own}, nullptr, nullptr);
      for (size_t r = 0; r < owns.size(); ++r) {
        ASSERT_EQ(static_cast<const ReplicaRendezvous::InlineValue*>(owns[r])->signature,
                  i * 10 + r);
      }
    }
  });
}

// A replica that is still waking up after a rendezvous does not wait in it any more.
TEST(ReplicaRendezvous, KnowsWhoStillWaits) {
  ReplicaRendezvous rendezvous(2);
  rendezvous.begin(nullptr);
  std::atomic<int> made{0};
  in_threads(rendezvous, [&](size_t replica) {
    for (int i = 1; i <= 2000; ++i) {
      rendezvous.meet(replica, {"test", 0, nullptr}, nullptr, nullptr);
      if (replica == 0) {
        made = i;
        rendezvous.announce();
      } else {
        EXPECT_TRUE(rendezvous.await_first([&] { return made >= i; }));
      }
    }
  });
}

TEST(ReplicaRendezvous, LetsOneRunAtATimeWhereAllAddToOneGraph) {
  ReplicaRendezvous rendezvous(3);
  const int graph = 0;
  rendezvous.begin(reinterpret_cast<const GraphBuilder*>(&graph));
  std::atomic<int> inside{0};
  std::string order;
  in_threads(rendezvous, [&](size_t replica) {
    ASSERT_TRUE(rendezvous.enter(replica));
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(++inside, 1);
      order += std::to_string(replica);
      --inside;
      rendezvous.meet(
          replica, {"test", 0, nullptr}, [&](std::span<void* const>) { order += 'm'; },
          [&](std::span<void* const>) { order += std::to_string(replica); });
    }
  });
  EXPECT_EQ(order, "012m012012m012012m012");
}

}  // namespace
}  // namespace cohort::internal
