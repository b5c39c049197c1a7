#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "collectives/communicator_access.h"
#include "collectives/contest.h"
#include "collectives/limits.h"
#include "collectives/parts.h"
#include "collectives/peers.h"
#include "support/child_processes.h"
#include "support/socket_mesh.h"

namespace cohort::bench {
namespace {

constexpr int kRounds = 15;

// This thread to a core of its own, as far as there are enough.
void pin(int rank) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<unsigned>(rank) % std::thread::hardware_concurrency(), &cores);
  sched_setaffinity(0, sizeof(cores), &cores);
}

void unpin() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (unsigned core = 0; core < std::thread::hardware_concurrency(); ++core) {
    CPU_SET(core, &cores);
  }
  sched_setaffinity(0, sizeof(cores), &cores);
}

// What the others may see of a pack, as a plain program has it.
std::vector<float*> all_of(const Pack& pack) {
  std::vector<float*> all;
  for (std::byte* memory : internal::CollectiveAccess::memory(pack)->all) {
    all.push_back(reinterpret_cast<float*>(memory));
  }
  return all;
}

void measure(Communicator& group, size_t bytes, const AllReduce& mpi, const AllReduce& gloo) {
  const size_t count = bytes / sizeof(float);
  const auto elements = static_cast<int64_t>(count);
  Pack pack = group.make_pack(kFloat32, {{elements}});
  Pack limit_pack = group.make_pack(kFloat32, {{elements}});
  Pack limit_memory =
      group.make_pack(kFloat32, {{static_cast<int64_t>(Limits::elements(group.size()))}});
  const std::vector<float*> all = all_of(limit_pack);
  Limits limits(group.rank(), group.size(), all_of(limit_memory)[0]);
  std::vector<float> staged(count), with_mpi(count), with_gloo(count);
  const Tensor tensor = Tensor::from(std::vector<float>(count, 0.f));
  const int calls = calls_for(bytes, size_t{32} << 20, 2000);
  const int slow_calls = calls_for(bytes, size_t{2} << 20, 50);

  // Gloo has a thread of its own that wakes the caller's: neither is bound to a core.
  const auto bound = [&] { pin(group.rank()); };
  GroupContest contest(group);
  contest.add(
      "limit, shared", calls, [&] { limits.shared(all, count); }, bound);
  contest.add(
      "pack", calls, [&] { group.all_reduce(pack); }, bound);
  contest.add(
      "limit, staged", calls, [&] { limits.staged(staged.data(), count); }, bound);
  contest.add(
      "tensor", calls, [&] { group.all_reduce(tensor); }, bound);
  if (mpi)
    contest.add(
        mpi_name(), calls, [&] { mpi(with_mpi.data(), count); }, bound);
  if (gloo)
    contest.add(
        "Gloo", slow_calls, [&] { gloo(with_gloo.data(), count); }, unpin);
  contest.run(kRounds);
  contest.print(std::to_string(group.size()) + " members of one host, " + size_name(bytes));
  const bool is_small = bytes < 64 << 10;
  contest.compare("pack", "limit, shared", 0.7);
  contest.compare("tensor", "limit, staged", 0.7);
  contest.compare("pack", mpi_name(), is_small ? 1 : 3);
  contest.compare("tensor", mpi_name(), is_small ? 1 : 1.2);
  contest.compare("pack", "Gloo", 6);
  contest.compare("tensor", "Gloo", 4);
}

void measure_all(const std::string& directory, int rank, int members, const AllReduce& mpi) {
  std::filesystem::create_directories(directory + "/gloo");
  const AllReduce gloo = gloo_all_reduce(directory + "/gloo", rank, members);
  if (rank == 0 && !mpi) std::printf("MPI: left out, built without it (libopenmpi-dev)\n");
  if (rank == 0 && !gloo) std::printf("Gloo: left out, built without it (libgloo-dev)\n");
  Communicator group = internal::make_communicator(group_in_directory(directory, rank, members));
  for (const size_t bytes : {4ul << 10, 64ul << 10, 1ul << 20, 16ul << 20, 100ul << 20}) {
    measure(group, bytes, mpi, gloo);
  }
  group.barrier();
}

int fork_members(const std::string& directory, int members) {
  ChildProcesses children;
  for (int rank = 0; rank < members; ++rank) {
    children.start([&, rank] {
      measure_all(directory, rank, members, {});
      return 0;
    });
  }
  int failed = 0;
  for (int rank = 0; rank < members; ++rank) failed += children.wait_for(rank) != 0;
  return failed;
}

}  // namespace

void run_member(const std::string& directory, int members) {
  const AllReduce mpi = mpi_all_reduce();
  measure_all(directory, mpi_rank(), members, mpi);
}

int on_one_host(const std::string& program, int members) {
  char directory[] = "/tmp/cohort-bench-XXXXXX";
  if (mkdtemp(directory) == nullptr) return 1;
  const std::string launcher = mpi_launcher(members);
  int failed = 0;
  if (launcher.empty()) {
    failed = fork_members(directory, members);
  } else {
    const std::string command =
        launcher + " " + program + " --member " + std::to_string(members) + " " + directory;
    failed = std::system(command.c_str()) != 0 ? 1 : 0;
  }
  std::filesystem::remove_all(directory);
  return failed;
}

}  // namespace cohort::bench
