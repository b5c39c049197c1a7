#include "coordinator/worker_channel.h"

#include <fmt/format.h>

#include "base/raise.h"
#include "cluster/ask_server.h"
#include "coordinator/graph_nodes.h"
#include "coordinator/per_worker_data.h"
#include "coordinator/shipping.h"

namespace cohort::internal {
namespace {

// A worker that is there answers at once; one that is not is asked again later.
constexpr std::chrono::milliseconds kOpenLimit{1000};
// For a worker to get a function ready, which includes finding the parameter servers.
constexpr std::chrono::milliseconds kPrepareLimit{5000};

}  // namespace

bool WorkerChannel::is_open() const {
  const std::lock_guard lock(mutex_);
  return connected_ != nullptr;
}

uint64_t WorkerChannel::generation() const {
  const std::lock_guard lock(mutex_);
  return generation_;
}

void WorkerChannel::open() {
  const std::lock_guard lock(mutex_);
  if (connected_) return;
  if (!cleared_) {
    clear_containers(options_.address, {options_.container}, options_.credentials, kOpenLimit);
    cleared_ = true;
  }
  auto made = std::make_unique<Connected>();
  made->graph = std::make_shared<GraphImpl>();
  made->claim = add_placeholder(*made->graph, "claim", {kInt64, Shape{3}}, options_.home);
  SessionOptions options;
  options.credentials = options_.credentials;
  made->session = std::make_shared<RemoteSession>(made->graph, options_.address, options);
  made->session->open(kOpenLimit);
  connected_ = std::move(made);
}

bool WorkerChannel::drop(uint64_t generation, bool lost_state) {
  std::unique_ptr<Connected> ended;  // outside of the lock: its end may take a while
  const std::lock_guard lock(mutex_);
  if (generation != generation_ || !connected_) return false;
  ended = std::move(connected_);
  ++generation_;
  if (lost_state) ++state_;
  return true;
}

void WorkerChannel::cancel() {
  std::shared_ptr<RemoteSession> session;
  {
    const std::lock_guard lock(mutex_);
    if (connected_) session = connected_->session;
  }
  if (session) session->cancel_runs();
}

Endpoint WorkerChannel::bind_iterator(Connected& to, const ElementSource& source) const {
  const std::string name = fmt::format("{}_{}", source.name(), state_);
  const auto known = to.iterators.find(name);
  if (known != to.iterators.end()) return known->second;
  const auto* per_worker = dynamic_cast<const PerWorkerSource*>(&source);
  const std::string description =
      per_worker ? per_worker->description(options_.worker) : source.describe_dataset();
  return to.iterators[name] =
             add_iterator_handle(*to.graph, {options_.container, name, description}, options_.home);
}

int WorkerChannel::ship_to(Connected& to, const Closure& closure) {
  const ShippedFunction shipped =
      ship(closure.trace->function(), closure.arguments,
           {.graph = *to.graph,
            .home = options_.home,
            .container = options_.container,
            .bind_iterator = [&](const ElementSource& source) { return bind_iterator(to, source); },
            .claim = to.claim});
  std::vector<Tensor> feeds{to.graph->symbol(to.claim)};
  std::vector<Tensor> fetches;
  for (const Endpoint feed : shipped.feeds) feeds.push_back(to.graph->symbol(feed));
  for (const Endpoint fetch : shipped.fetches) fetches.push_back(to.graph->symbol(fetch));
  return to.session->make_callable(feeds, fetches, kPrepareLimit);
}

std::pair<std::shared_ptr<RemoteSession>, int> WorkerChannel::prepare(const Closure& closure) {
  std::vector<std::shared_ptr<const Resource>> resources;
  Key key{closure.trace.get(), {}};
  for (const Tensor& argument : closure.arguments) {
    if (argument.dtype() != kResource) continue;
    resources.push_back(resource_of(argument));
    key.second.push_back(resources.back().get());
  }
  const std::lock_guard lock(mutex_);
  if (!connected_) raise(Code::Unavailable, "[Coordinator] worker {} is lost", task());
  auto found = connected_->functions.find(key);
  if (found == connected_->functions.end()) {
    const int callable = ship_to(*connected_, closure);
    found =
        connected_->functions.emplace(key, Shipped{closure.trace, std::move(resources), callable})
            .first;
  }
  return {connected_->session, found->second.callable};
}

std::vector<Tensor> WorkerChannel::run(const Closure& closure, const Tensor& claim) {
  const auto [session, callable] = prepare(closure);
  std::vector<Tensor> values{claim};
  for (const Tensor& argument : closure.arguments) {
    if (argument.dtype() != kResource) values.push_back(argument);
  }
  std::vector<Tensor> results =
      session->run_callable(callable, values, {.timeout = options_.function_timeout});
  results.pop_back();  // that it is done
  return results;
}

}  // namespace cohort::internal
