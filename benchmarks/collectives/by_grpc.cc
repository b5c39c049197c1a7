#include <filesystem>

#include "collectives/contest.h"
#include "collectives/parts.h"
#include "collectives/peers.h"
#include "support/member_processes.h"

namespace cohort::bench {
namespace {

constexpr int kRounds = 9;

void measure(Communicator& group, size_t bytes, const AllReduce& gloo) {
  const size_t count = bytes / sizeof(float);
  const Tensor tensor = Tensor::from(std::vector<float>(count, 0.f));
  std::vector<float> values(count);
  const int calls = calls_for(bytes, size_t{16} << 20, 100);
  GroupContest contest(group);
  contest.add("gRPC", calls, [&] { group.all_reduce(tensor); });
  if (gloo) contest.add("Gloo", calls, [&] { gloo(values.data(), count); });
  contest.run(kRounds);
  contest.print(std::to_string(group.size()) + " members by gRPC, " + size_name(bytes));
  if (bytes >= 1 << 20) contest.compare("gRPC", "Gloo", 0.7);
}

}  // namespace

int by_grpc(int members) {
  char directory[] = "/tmp/cohort-bench-XXXXXX";
  if (mkdtemp(directory) == nullptr) return 1;
  const auto run = [&](const MemberProcesses::Membership& membership) {
    Communicator group = membership.make_communicator(false);
    const AllReduce gloo = gloo_all_reduce(directory, group.rank(), group.size());
    for (const size_t bytes : {4ul << 10, 64ul << 10, 1ul << 20, 16ul << 20, 100ul << 20}) {
      measure(group, bytes, gloo);
    }
    group.barrier();
    return 0;
  };
  int failed = 0;
  {
    MemberProcesses processes(members, run, "grpc");
    for (int rank = 0; rank < members; ++rank) failed += processes.wait_for(rank) != 0;
  }
  std::filesystem::remove_all(directory);
  return failed;
}

}  // namespace cohort::bench
