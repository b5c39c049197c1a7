// All-reduces between processes of this host: packs that live in shared memory and ordinary
// tensors, beside hand-written loops that do no more than they must, Open MPI and Gloo, where the
// build found them. All run in turn, in the same processes.

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "collectives/access.h"
#include "collectives_peers/limits.h"
#include "collectives_peers/peers.h"
#include "ratio.h"
#include "support/socket_mesh.h"

namespace {

using namespace cohort;  // NOLINT: a program

constexpr int kRounds = 15;

std::string size_name(size_t bytes) {
  return bytes < 1 << 20 ? std::to_string(bytes >> 10) + " KB"
                         : std::to_string(bytes >> 20) + " MB";
}

struct Contestant {
  std::string name;
  std::function<void()> run;
  std::vector<double> seconds = {};  // of the slowest member, one for each round

  double best() const { return *std::min_element(seconds.begin(), seconds.end()); }
};

// One member of a group that measures together.
class Member {
 public:
  Member(const std::string& folder, int rank, int size) : rank_(rank), size_(size) {
    pin();
    group_ = internal::make_communicator(meet_in_folder(folder, rank, size));
    std::filesystem::create_directories(folder + "/gloo");
    gloo_ = bench::gloo_all_reduce(folder + "/gloo", rank, size);
  }

  void measure(size_t bytes, const bench::AllReduce& mpi) {
    const size_t count = bytes / sizeof(float);
    Pack pack = group_.make_pack(kFloat32, {{static_cast<int64_t>(count)}});
    Pack limit_memory =
        group_.make_pack(kFloat32, {{static_cast<int64_t>(bench::Limits::elements(size_))}});
    Pack limit_pack = group_.make_pack(kFloat32, {{static_cast<int64_t>(count)}});
    std::vector<float*> all;
    for (std::byte* memory : internal::CollectiveAccess::memory(limit_pack)->all) {
      all.push_back(reinterpret_cast<float*>(memory));
    }
    auto* const first = internal::CollectiveAccess::memory(limit_memory)->all[0];
    bench::Limits limits(rank_, size_, reinterpret_cast<float*>(first));
    std::vector<float> staged(count), with_mpi(count), with_gloo(count);
    const Tensor tensor = Tensor::from(std::vector<float>(count, 0.f));
    std::vector<Contestant> contestants = {
        {"limit, shared", [&] { limits.shared(all, count); }},
        {"pack", [&] { group_.all_reduce(pack); }},
        {"limit, staged", [&] { limits.staged(staged.data(), count); }},
        {"tensor", [&] { group_.all_reduce(tensor); }}};
    if (mpi) contestants.push_back({"Open MPI", [&] { mpi(with_mpi.data(), count); }});
    if (gloo_) contestants.push_back({"Gloo", [&] { gloo_(with_gloo.data(), count); }});
    for (int round = 0; round <= kRounds; ++round) {
      for (Contestant& contestant : contestants) {
        const double seconds = time(contestant, bytes);
        if (round > 0) contestant.seconds.push_back(seconds);  // the first one warms up
      }
    }
    if (rank_ == 0) print(bytes, contestants);
  }

 private:
  void pin() const {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(static_cast<unsigned>(rank_) % std::thread::hardware_concurrency(), &cores);
    sched_setaffinity(0, sizeof(cores), &cores);
  }

  double time(const Contestant& contestant, size_t bytes) {
    const bool is_slow = contestant.name == "Gloo";
    const size_t budget = is_slow ? size_t{2} << 20 : size_t{32} << 20;
    const auto calls = static_cast<int>(std::clamp<size_t>(budget / bytes, 1, is_slow ? 50 : 2000));
    group_.barrier();
    const double seconds = bench::seconds_of([&] {
                             for (int i = 0; i < calls; ++i) contestant.run();
                           }) /
                           calls;
    return group_.all_reduce(Tensor(seconds), ReduceOp::Max).to<double>();
  }

  void print(size_t bytes, const std::vector<Contestant>& contestants) const {
    std::printf("%d members, %s\n", size_, size_name(bytes).c_str());
    const auto find = [&](std::string_view name) -> const Contestant* {
      for (const Contestant& one : contestants) {
        if (one.name == name) return &one;
      }
      return nullptr;
    };
    for (const Contestant& one : contestants) {
      std::printf("  %-14s best %10.2f us  median %10.2f us\n", one.name.c_str(), one.best() * 1e6,
                  bench::median(one.seconds) * 1e6);
    }
    const auto compare = [&](std::string_view ours, std::string_view theirs, double wanted) {
      if (find(theirs) == nullptr) return;
      const double ratio =
          bench::median(find(theirs)->seconds) / bench::median(find(ours)->seconds);
      std::printf("  %-8s is %7.2f times %-14s best %7.2f  wanted %.2f  %s\n", ours.data(), ratio,
                  theirs.data(), find(theirs)->best() / find(ours)->best(), wanted,
                  ratio >= wanted ? "ok" : "MISSED");
    };
    const bool is_small = bytes < 64 << 10;
    compare("pack", "limit, shared", 0.7);
    compare("tensor", "limit, staged", 0.7);
    compare("pack", "Open MPI", is_small ? 1 : 3);
    compare("tensor", "Open MPI", is_small ? 1 : 1.2);
    compare("pack", "Gloo", 6);
    compare("tensor", "Gloo", 4);
    std::fflush(stdout);
  }

  const int rank_;
  const int size_;
  Communicator group_;
  bench::AllReduce gloo_;
};

// Pages of vectors stay with the process, as the library's own do.
void run_member(const std::string& folder, int rank, int size, const bench::AllReduce& mpi) {
  Member member(folder, rank, size);
  for (const size_t bytes : {4ul << 10, 64ul << 10, 1ul << 20, 16ul << 20, 100ul << 20}) {
    member.measure(bytes, mpi);
  }
}

int fork_members(const std::string& folder, int size) {
  for (int rank = 0; rank < size; ++rank) {
    if (fork() != 0) continue;
    run_member(folder, rank, size, {});
    std::fflush(stdout);
    _exit(0);
  }
  int failed = 0;
  for (int rank = 0; rank < size; ++rank) {
    int status = 0;
    wait(&status);
    failed += status != 0;
  }
  return failed;
}

}  // namespace

// Without arguments: 2 members, then 4. With a number: so many.
int main(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == "--member") {
    const bench::AllReduce mpi = bench::open_mpi();
    run_member(argv[2], bench::open_mpi_rank(), std::atoi(argv[3]), mpi);
    return 0;
  }
  std::vector<int> sizes = {2, 4};
  if (argc == 2) sizes = {std::atoi(argv[1])};
  int failed = 0;
  for (const int size : sizes) {
    char folder[] = "/tmp/cohort-bench-XXXXXX";
    if (mkdtemp(folder) == nullptr) return 1;
    const std::string launcher = bench::mpi_launcher(size);
    if (launcher.empty()) {
      failed += fork_members(folder, size);
    } else {
      const std::string command =
          launcher + " " + argv[0] + " --member " + folder + " " + std::to_string(size);
      failed += std::system(command.c_str()) != 0;
    }
    std::filesystem::remove_all(folder);
  }
  return failed == 0 ? 0 : 1;
}
