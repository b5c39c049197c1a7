// Steps of a client, a worker and a ps, three processes.

#include <cstring>

#include "bare_grpc.h"
#include "parts.h"
#include "ratio.h"

namespace cohort::bench {
namespace {

constexpr int64_t kLarge = int64_t{kStreamBytes};

// Something that the worker computes once all of `before` is there.
Tensor on_worker_after(const std::vector<Tensor>& before) {
  auto here = device("/job:worker/task:0");
  const ControlDependencies after(before);
  return constant(1.f) + placeholder_with_default(constant(0.f), {});
}

// A graph, a session on the worker, and one step.
struct Step {
  Graph graph;
  std::unique_ptr<Session> session;
  std::unique_ptr<Callable> run;

  void prepare(const std::string& target, const Tensor& initialize, const Tensor& fetch) {
    session =
        std::make_unique<Session>(graph, target, SessionOptions{.isolate_session_state = true});
    session->run(initialize);
    run = std::make_unique<Callable>(session->make_callable({}, {fetch}));
  }
  void operator()() const { (*run)({}); }
};

Variable variable_on(const char* place, const std::string& name, int64_t elements) {
  auto on = device(place);
  return get_variable(name, {.shape = {elements}, .initializer = ones()});
}

// `count` variables on the ps. The worker gets their values, and sends as many tensors of its own,
// which are added to them.
struct Exchange : Step {
  Exchange(const std::string& target, int count, int64_t elements, bool push) {
    auto building = graph.as_default();
    std::vector<Tensor> pulled;
    std::vector<Tensor> pushed;
    for (int i = 0; i < count; ++i) {
      Variable v = variable_on("/job:ps/task:0", "v" + std::to_string(i), elements);
      auto here = device("/job:worker/task:0");
      pulled.push_back(identity(v.read_value()));
      if (push) pushed.push_back(v.assign_add(ones({elements})));
    }
    std::vector<Tensor> all = pulled;
    all.insert(all.end(), pushed.begin(), pushed.end());
    const Tensor fetch = on_worker_after(all);
    const Tensor initialize = global_variables_initializer();
    building.close();
    prepare(target, initialize, fetch);
  }
};

// 64 MB from the ps to the worker, or the other way.
struct Large : Step {
  Large(const std::string& target, bool push) {
    auto building = graph.as_default();
    Variable there = variable_on("/job:ps/task:0", "there", kLarge / 4);
    const Variable here = variable_on("/job:worker/task:0", "here", kLarge / 4);
    Tensor moved;
    if (push) {
      moved = there.assign(here);
    } else {
      auto on = device("/job:worker/task:0");
      moved = identity(there.read_value());
    }
    const Tensor fetch = on_worker_after({moved});
    const Tensor initialize = global_variables_initializer();
    building.close();
    prepare(target, initialize, fetch);
  }
};

void print_null_step(const std::string& way, const Step& step, double limit_us) {
  std::vector<double> times;
  for (int i = 0; i < 3000; ++i) times.push_back(seconds_of([&] { step(); }) * 1e6);
  const double us = median(times);
  std::printf("%-44s %10.2f us %34s limit %.0f  %s\n", ("null step, " + way).c_str(), us, "",
              limit_us, us <= limit_us ? "ok" : "MISSED");
  std::fflush(stdout);
}

void null_steps_by(const std::string& way, double limit_us) {
  const Tasks tasks(way);
  const Exchange null(tasks.target(), 1, 1, false);
  const Exchange many(tasks.target(), 100, 1024, true);
  for (int i = 0; i < 300; ++i) null();
  for (int i = 0; i < 100; ++i) many();
  print_null_step(way, null, limit_us);
  run({.name = "100 x 4 KB both ways over it, " + way,
       .ours = [&] { many(); },
       .theirs = [&] { null(); },
       .calls = 20,
       .rounds = 21,
       .limit = 1.5});
}

void large_by(const std::string& way, const std::string& peer, double share,
              const std::function<void()>& theirs) {
  const Tasks tasks(way);
  for (const bool push : {false, true}) {
    const Large step(tasks.target(), push);
    for (int i = 0; i < 5; ++i) step();
    run({.name = std::string(push ? "64 MB pushed" : "64 MB pulled") + " over " + peer,
         .ours = [&] { step(); },
         .theirs = theirs,
         .rounds = 15,
         .limit = 1 / share});
  }
}

}  // namespace

void null_steps() {
  null_steps_by("shared-memory", 150);
  null_steps_by("grpc", 500);
}

void large_tensors() {
  std::vector<char> from(kStreamBytes, 1);
  std::vector<char> to(kStreamBytes, 2);
  large_by("shared-memory", "memcpy", 0.6,
           [&] { std::memcpy(to.data(), from.data(), kStreamBytes); });
  const std::string address = test::free_addresses(1)[0];
  const test::Process server({own_path(), "bare-grpc-server", address});
  BareGrpcClient bare(address);
  large_by("grpc", "a bare stream", 0.8, [&] { bare.send_large(); });
}

void opening() {
  const Tasks tasks("shared-memory", 10, 10);
  Graph graph;
  auto building = graph.as_default();
  std::vector<Tensor> parts;
  for (int i = 0; i < 10; ++i) {
    for (const char* job : {"/job:ps/task:", "/job:worker/task:"}) {
      auto on = device(job + std::to_string(i));
      parts.push_back(neg(placeholder_with_default(constant(1.f), {})));
    }
  }
  const auto open_and_run = [&] { Session(tasks.target()).run(parts); };
  open_and_run();  // waits until the processes are up
  const double us =
      median({seconds_of(open_and_run), seconds_of(open_and_run), seconds_of(open_and_run)}) * 1e6;
  std::printf("%-44s %10.2f us %34s limit 1000000  %s\n", "a session opened and run on 20 tasks",
              us, "", us <= 1e6 ? "ok" : "MISSED");
}

}  // namespace cohort::bench
