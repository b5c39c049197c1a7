// Strategies in one process. All-reduces stand beside the least that any program would have to do:
// threads that add up their slices of the same vectors into one buffer.

#include <cohort/cohort.h>

#include <atomic>
#include <thread>

#include "ratio.h"

namespace {

using namespace cohort;  // NOLINT: a program

std::vector<std::string> cpus(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back("CPU:" + std::to_string(i));
  return names;
}

// As many threads as cores, one of them the caller, that meet before and after each addition.
class PlainAdder {
 public:
  PlainAdder(size_t vectors, int64_t size)
      : parts_(std::min<size_t>(std::max(1u, std::thread::hardware_concurrency()), vectors)) {
    for (size_t i = 0; i < vectors; ++i) sources_.emplace_back(static_cast<size_t>(size), i + 1.f);
    total_.resize(static_cast<size_t>(size));
    for (size_t part = 1; part < parts_; ++part)
      threads_.emplace_back([this, part] { work(part); });
  }
  ~PlainAdder() {
    order(0);
    for (std::thread& thread : threads_) thread.join();
  }

  void run(int times) {
    order(times);
    add_repeatedly(0, times);
  }

 private:
  void order(int times) {
    times_ = times;
    orders_.fetch_add(1);
    orders_.notify_all();
  }

  void work(size_t part) {
    for (unsigned seen = 0;;) {
      orders_.wait(seen);
      seen = orders_.load();
      if (times_ == 0) return;
      add_repeatedly(part, times_);
    }
  }

  void add_repeatedly(size_t part, int times) {
    for (int i = 0; i < times; ++i) {
      meet();
      add(part);
      meet();
    }
  }

  void meet() {
    const unsigned round = round_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == parts_) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    while (round_.load(std::memory_order_acquire) == round) __builtin_ia32_pause();
  }

  void add(size_t part) {
    const size_t begin = total_.size() * part / parts_;
    const size_t end = total_.size() * (part + 1) / parts_;
    const float* a = sources_[0].data();
    const float* b = sources_[1].data();
    float* sum = total_.data();
    if (sources_.size() == 2) {
#pragma GCC ivdep
      for (size_t i = begin; i < end; ++i) sum[i] = a[i] + b[i];
    } else {
      const float* c = sources_[2].data();
      const float* d = sources_[3].data();
#pragma GCC ivdep
      for (size_t i = begin; i < end; ++i) sum[i] = ((a[i] + b[i]) + c[i]) + d[i];
    }
  }

  const size_t parts_;
  std::vector<std::vector<float>> sources_;
  std::vector<float> total_;
  std::atomic<unsigned> orders_{0};
  std::atomic<int> times_{0};
  alignas(64) std::atomic<size_t> arrived_{0};
  alignas(64) std::atomic<unsigned> round_{0};
  std::vector<std::thread> threads_;
};

std::string size_name(int64_t bytes) {
  return bytes < 1 << 20 ? std::to_string(bytes >> 10) + " KB"
                         : std::to_string(bytes >> 20) + " MB";
}

void bench_all_reduce(size_t replicas, int64_t bytes) {
  MirroredStrategy strategy(cpus(replicas));
  const int64_t size = bytes / 4;
  PlainAdder plain(replicas, size);
  const auto values = strategy.distribute_values_from_function(
      [&](ValueContext context) { return fill({size}, context.replica_id_in_sync_group + 1.f); });
  const int times = static_cast<int>(std::clamp<int64_t>((8 << 20) / bytes, 4, 500));
  const auto all_reduce = [times](const Tensor& own) {
    ReplicaContext& context = *get_replica_context();
    for (int i = 0; i < times; ++i) context.all_reduce(ReduceOp::Sum, own);
  };
  bench::run(
      {.name = "all-reduce of " + size_name(bytes) + ", " + std::to_string(replicas) + " replicas",
       .ours = [&] { strategy.run(all_reduce, values); },
       .theirs = [&] { plain.run(times); },
       .times = times,
       .limit = 1 / 0.7});
}

}  // namespace

int main() {
  std::printf("%-44s %13s %13s\n", "", "cohort", "plain threads");
  for (const size_t replicas : {2, 4}) {
    for (const int64_t bytes : {4ll << 10, 64ll << 10, 1ll << 20, 16ll << 20, 100ll << 20}) {
      bench_all_reduce(replicas, bytes);
    }
  }
}
