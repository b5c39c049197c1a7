// Steps over real processes of this host: a client, a worker, a ps.
//
//   bench_cluster                      all of it
//   bench_cluster null                 one part: null, large, zeromq, opening

#include <cohort/cohort.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>

#include "support/process_cluster.h"
#include "zeromq_loop.h"

namespace {

using namespace cohort;  // NOLINT: a program
using Clock = std::chrono::steady_clock;

std::string own_path() {
  char path[4096] = {};
  return readlink("/proc/self/exe", path, sizeof path - 1) > 0 ? path : "";
}

// Microseconds that one call takes: the median of `count`.
double median_us(int count, const std::function<void()>& call) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    const auto start = Clock::now();
    call();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + count / 2, times.end());
  return times[static_cast<size_t>(count / 2)];
}

void warm_up(const std::function<void()>& call, int count = 200) {
  for (int i = 0; i < count; ++i) call();
}

// A cluster whose messages go that way, and a session on its worker.
struct Cluster {
  explicit Cluster(const std::string& way, int num_ps = 1, int num_workers = 1) {
    setenv("COHORT_TRANSPORT", way.c_str(), 1);
    tasks = std::make_unique<test::ProcessCluster>(own_path(), num_ps, num_workers);
  }
  ~Cluster() { unsetenv("COHORT_TRANSPORT"); }
  std::unique_ptr<test::ProcessCluster> tasks;
};

// Variables on the ps, a constant for each on the worker. A step reads all of them on the worker
// and adds the constants to them.
struct Exchange {
  Graph graph;
  Graph::Scope building = graph.as_default();
  Tensor initialize, step;

  Exchange(int count, int64_t elements, bool push) {
    std::vector<Tensor> pulled;
    std::vector<Tensor> results;
    for (int i = 0; i < count; ++i) {
      auto on = device("/job:ps/task:0");
      Variable v =
          get_variable("v" + std::to_string(i), {.shape = {elements}, .initializer = ones()});
      auto here = device("/job:worker/task:0");
      const Tensor value = v.read_value();
      results.push_back(slice(value, {{0, 1}}));
      if (push) results.push_back(v.assign_add(zeros({elements})));
    }
    initialize = global_variables_initializer();
    auto here = device("/job:worker/task:0");
    const ControlDependencies after(results);
    step = constant(1.f) + placeholder_with_default(constant(0.f), {});
  }
};

double step_us(Session& session, const Exchange& exchange, int count) {
  session.run(exchange.initialize);
  const Callable step = session.make_callable({}, {exchange.step});
  warm_up([&] { step({}); }, std::min(count, 200));
  return median_us(count, [&] { step({}); });
}

void bench_small(const std::string& way, double limit_us) {
  const Cluster cluster(way);
  const Exchange null(1, 1, false);
  const Exchange many(100, 1024, true);
  Session session(null.graph, cluster.tasks->target());
  Session other(many.graph, cluster.tasks->target(), {.isolate_session_state = true});
  const double null_us = step_us(session, null, 3000);
  const double many_us = step_us(other, many, 500);
  std::printf(
      "%-14s null step %8.1f us (limit %.0f); 100 variables of 4 KB pulled and pushed "
      "%8.1f us, %.2f times (limit 1.5)\n",
      way.c_str(), null_us, limit_us, many_us, many_us / null_us);
}

double memcpy_gbs(size_t bytes) {
  std::vector<char> from(bytes, 1), to(bytes, 2);
  const double us = median_us(9, [&] { std::memcpy(to.data(), from.data(), bytes); });
  return static_cast<double>(bytes) / us / 1e3;
}

void bench_large(const std::string& way) {
  const Cluster cluster(way);
  constexpr int64_t kBytes = int64_t{64} << 20;
  const Exchange pull(1, kBytes / 4, false);
  const Exchange both(1, kBytes / 4, true);
  Session session(pull.graph, cluster.tasks->target());
  Session other(both.graph, cluster.tasks->target(), {.isolate_session_state = true});
  const double pull_us = step_us(session, pull, 15);
  const double both_us = step_us(other, both, 15);
  const double copy = memcpy_gbs(kBytes);
  const double gbs = static_cast<double>(kBytes) / pull_us / 1e3;
  std::printf(
      "%-14s 64 MB pulled %.0f us, %.2f GB/s, %.2f of memcpy's %.2f; pulled and pushed (and "
      "added) %.0f us\n",
      way.c_str(), pull_us, gbs, gbs / copy, copy, both_us);
}

void bench_zeromq() {
  const Cluster cluster("shared-memory");
  for (const int64_t bytes : {int64_t{4} << 10, int64_t{1} << 20, int64_t{64} << 20}) {
    const int count = bytes > (8 << 20) ? 9 : 300;
    const Exchange both(1, bytes / 4, true);
    Session session(both.graph, cluster.tasks->target(), {.isolate_session_state = true});
    const double ours = step_us(session, both, count);
    const double theirs = bench::zeromq_push_pull_us(own_path(), static_cast<size_t>(bytes), count);
    std::printf(
        "push and pull of %9ld bytes: %9.1f us, ZeroMQ request/reply %9.1f us, %.2f times as "
        "fast\n",
        bytes, ours, theirs, theirs / ours);
  }
}

void bench_opening() {
  const Cluster cluster("shared-memory", 10, 10);
  Graph graph;
  auto building = graph.as_default();
  std::vector<Tensor> parts;
  for (int i = 0; i < 10; ++i) {
    for (const char* job : {"/job:ps/task:", "/job:worker/task:"}) {
      auto on = device(job + std::to_string(i));
      parts.push_back(neg(placeholder_with_default(constant(1.f), {})));
    }
  }
  {
    Session first(cluster.tasks->target());  // waits until the processes are up
    first.run(parts);
  }
  const double us = median_us(3, [&] {
    Session session(cluster.tasks->target());
    session.run(parts);
  });
  std::printf("opening a session on 20 tasks and running on all of them: %.0f ms (limit 1000)\n",
              us / 1e3);
}

int serve(char** words) {
  const auto split = [](const std::string& list) {
    TaskList parts;
    for (size_t from = 0; from < list.size();) {
      const size_t comma = std::min(list.find(',', from), list.size());
      parts.push_back(list.substr(from, comma - from));
      from = comma + 1;
    }
    return parts;
  };
  const ClusterSpec cluster(
      std::map<std::string, TaskList>{{"ps", split(words[0])}, {"worker", split(words[1])}});
  Server(cluster, {.job_name = words[2], .task_index = std::stoi(words[3])}).join();
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc > 2) prctl(PR_SET_PDEATHSIG, SIGKILL);  // not longer than who measures
  if (argc == 5) return serve(argv + 1);
  if (argc == 3) return bench::serve_zeromq(argv[2]);
  const std::string part = argc > 1 ? argv[1] : "";
  const auto wanted = [&](const char* name) { return part.empty() || part == name; };
  if (wanted("null")) {
    bench_small("shared-memory", 150);
    bench_small("grpc", 500);
  }
  if (wanted("large")) {
    bench_large("shared-memory");
    bench_large("grpc");
  }
  if (wanted("zeromq")) bench_zeromq();
  if (wanted("opening")) bench_opening();
} catch (const Error& error) {
  std::fprintf(stderr, "bench_cluster: %s\n", error.what());
  return 1;
}
