#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "collectives/shared_segment.h"
#include "support/member_processes.h"

// Members that are processes, and what is left of a group when one of them is killed.

namespace cohort {
namespace {

using std::chrono::steady_clock;

// Memory that the test and the members see.
struct Scratch {
  std::atomic<int> ready;
  std::array<std::atomic<int64_t>, 8> failed_after_ms;
  std::atomic<int64_t> killed_at_ms;
};

int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             steady_clock::now().time_since_epoch())
      .count();
}

class Processes : public testing::TestWithParam<bool> {
 protected:
  static Communicator meet(std::shared_ptr<internal::Rendezvous> rendezvous) {
    return internal::make_communicator(std::move(rendezvous), {.share_memory = GetParam()});
  }
  std::shared_ptr<internal::SharedSegment> segment_ =
      internal::SharedSegment::create(sizeof(Scratch));
  Scratch& scratch_ = *reinterpret_cast<Scratch*>(segment_->data());
};

TEST_P(Processes, ReduceTensorsAndPacks) {
  MemberProcesses members(4, [](std::shared_ptr<internal::Rendezvous> rendezvous) {
    Communicator self = meet(std::move(rendezvous));
    if ((self.way() == "shared-memory") != GetParam()) return 2;
    const auto own = static_cast<float>(self.rank() + 1);
    const Tensor sum = self.all_reduce(Tensor::from(std::vector<float>(100000, own)));
    if (sum.to_vector<float>() != std::vector<float>(100000, 10.f)) return 3;
    Pack pack = self.make_pack(kFloat32, {{1000}, {3}});
    if (pack.is_shared() != GetParam()) return 4;
    for (int time = 1; time < 20; ++time) {
      for (float& value : pack.data<float>(1)) value = own * static_cast<float>(time);
      self.all_reduce(pack);
      for (const float value : pack.data<float>(1)) {
        if (value != 10.f * static_cast<float>(time)) return 5;
      }
    }
    self.barrier();
    return 0;
  });
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(members.wait_for(rank), 0) << rank;
}

TEST_P(Processes, AKilledMemberClosesTheGroupEverywhereWithItsName) {
  constexpr int kSize = 4;
  constexpr int kVictim = 2;
  MemberProcesses members(kSize, [this](std::shared_ptr<internal::Rendezvous> rendezvous) {
    Communicator self = meet(std::move(rendezvous));
    const Tensor values = Tensor::from(std::vector<float>(50000, 1.f));
    self.all_reduce(values);
    ++scratch_.ready;
    const Status status = capture_status([&] {
      for (;;) self.all_reduce(values);
    });
    scratch_.failed_after_ms[static_cast<size_t>(self.rank())] = now_ms();
    if (status.code != Code::Unavailable || status.origin != "/job:worker/task:2" ||
        status.message.find("rank 2 (/job:worker/task:2)") == std::string::npos) {
      std::fprintf(stderr, "%s\n", status.to_string().c_str());
      return 2;
    }
    const Status later = capture_status([&] { self.barrier(); });
    return later.message == status.message ? 0 : 3;
  });
  while (scratch_.ready < kSize) sched_yield();
  const int64_t killed = now_ms();
  members.kill_member(kVictim);
  for (int rank = 0; rank < kSize; ++rank) {
    if (rank == kVictim) continue;
    EXPECT_EQ(members.wait_for(rank), 0) << rank;
    EXPECT_LT(scratch_.failed_after_ms[static_cast<size_t>(rank)] - killed, 2000) << rank;
  }
}

TEST_P(Processes, LeaveNothingBehind) {
  const auto segments = [] {
    size_t found = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      found += entry.path().filename().string().find("cohort") != std::string::npos;
    }
    return found;
  };
  const size_t before = segments();
  MemberProcesses members(2, [this](std::shared_ptr<internal::Rendezvous> rendezvous) {
    Communicator self = meet(std::move(rendezvous));
    Pack pack = self.make_pack(kFloat32, {{1000}});
    ++scratch_.ready;
    (void)capture_status([&] {
      for (;;) self.all_reduce(pack);
    });
    return 0;
  });
  while (scratch_.ready < 2) sched_yield();
  members.kill_member(0);
  EXPECT_EQ(members.wait_for(1), 0);
  EXPECT_EQ(segments(), before);
}

INSTANTIATE_TEST_SUITE_P(Ways, Processes, testing::Bool(), [](const auto& tested) {
  return tested.param ? "SharedMemory" : "Messages";
});

}  // namespace
}  // namespace cohort
