#include <thread>

#include "collectives/contest.h"
#include "collectives/parts.h"
#include "support/member_processes.h"

namespace cohort::bench {
namespace {

constexpr int kRounds = 5;

void measure(Communicator& group, const std::string& what) {
  for (const size_t bytes : {4ul << 10, 64ul << 10, 1ul << 20}) {
    const Tensor tensor = Tensor::from(std::vector<float>(bytes / sizeof(float), 0.f));
    GroupContest contest(group);
    contest.add("tensor", calls_for(bytes, size_t{1} << 20, 20), [&] { group.all_reduce(tensor); });
    contest.run(kRounds);
    contest.print(what + " by " + group.kind() + ", " + size_name(bytes));
  }
  group.barrier();
}

void run_threads(int members, bool share_memory) {
  std::vector<internal::Peer> peers;
  for (int rank = 0; rank < members; ++rank) peers.push_back({.name = std::to_string(rank)});
  std::vector<internal::Group> groups = internal::in_process_groups(peers);
  std::vector<std::jthread> threads;
  for (internal::Group& member : groups) {
    if (!share_memory) member.hosts.assign(member.hosts.size(), "");
    threads.emplace_back([&] {
      Communicator group = internal::make_communicator(member);
      measure(group, std::to_string(members) + " threads");
    });
  }
}

int run_processes(int members, bool share_memory) {
  MemberProcesses processes(members, [&](const MemberProcesses::Membership& membership) {
    Communicator group = membership.make_communicator(share_memory);
    measure(group, std::to_string(members) + " processes");
    return 0;
  });
  int failed = 0;
  for (int rank = 0; rank < members; ++rank) failed += processes.wait_for(rank) != 0;
  return failed;
}

}  // namespace

// Processes first: a process that forks must have no threads.
int many_members() {
  int failed = 0;
  for (const bool share_memory : {true, false}) failed += run_processes(16, share_memory);
  for (const bool share_memory : {true, false}) run_threads(64, share_memory);
  return failed;
}

}  // namespace cohort::bench
