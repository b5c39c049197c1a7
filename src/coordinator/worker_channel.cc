#include "coordinator/worker_channel.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/raise.h"
#include "cluster/ask_server.h"
#include "coordinator/per_worker_data.h"
#include "ops/all_ops.h"

namespace cohort::internal {
namespace {

// A worker that is there answers at once. The coordinator asks others again later.
constexpr std::chrono::milliseconds kOpenLimit{1000};
// How long a worker may take to prepare a function, which includes finding the parameter servers.
constexpr std::chrono::milliseconds kPrepareLimit{5000};

}  // namespace

bool WorkerChannel::Lowered::is_dead() const {
  return trace.expired() ||
         std::ranges::any_of(resources, [](const auto& each) { return each.expired(); });
}

void WorkerChannel::open() {
  const std::lock_guard one_at_a_time(lowering_);
  if (!is_open()) open_session();
}

void WorkerChannel::open_session() {
  if (!cleared_) {
    clear_containers(options_.address, {{options_.container}, options_.chief}, options_.credentials,
                     kOpenLimit);
    cleared_ = true;
  }
  SessionOptions options;
  options.credentials = options_.credentials;
  auto made = std::make_shared<Connected>(options_.address, options);
  made->call_id = add_placeholder(*made->graph, "call_id", {kInt64, Shape{3}}, options_.home);
  made->own_call_id =
      add_placeholder(*made->graph, "own_call_id", {kInt64, Shape{3}}, options_.home);
  made->keep =
      add_placeholder(*made->graph, "keep", {kInt64, Shape{Shape::kUnknownDim}}, options_.home);
  made->session->open(kOpenLimit);
  std::shared_ptr<Connected> worn_out;  // destroyed after the lock, because that may take a while
  const std::lock_guard lock(mutex_);
  made->state = state_;  // nothing is dropped while nothing is open
  worn_out = std::exchange(connected_, std::move(made));
}

bool WorkerChannel::drop(uint64_t generation, bool lost_state) {
  std::shared_ptr<Connected> ended;  // destroyed after the lock, because that may take a while
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

void WorkerChannel::clear() {
  const Status status = capture_status([&] {
    connected()->session->clear_containers({{options_.container}, options_.chief}, kOpenLimit);
  });
  if (!status.ok()) log_debug("[Coordinator] {}", status.message);
}

NodeOutput WorkerChannel::bind_iterator(Connected& to,
                                        const std::shared_ptr<const ElementSource>& source) {
  const std::string name = fmt::format("{}_{}", source->name(), to.state);
  const auto known = to.handles.find(name);
  if (known != to.handles.end()) return known->second;
  // schedule() refuses all other sources.
  const auto& per_worker = dynamic_cast<const PerWorkerSource&>(*source);
  const std::string description = per_worker.description(options_.worker);
  bound_[name] = source;
  return to.handles[name] =
             add_iterator_handle(*to.graph, {options_.container, name, description}, options_.home);
}

NodeOutput WorkerChannel::bind_variable(Connected& to,
                                        const std::shared_ptr<const WorkerCell>& cell) {
  const std::string name = fmt::format("{}_{}", cell->unique_name(), to.state);
  const auto known = to.handles.find(name);
  if (known != to.handles.end()) return known->second;
  const NodeOutput handle = add_variable_handle(*to.graph, options_.container, name, options_.home);
  if (!bound_.contains(name)) {
    const Tensor& value = cell->initial_value();
    const Spec spec{value.dtype(), value.shape()};
    const NodeOutput given = add_placeholder(*to.graph, "initial_value", spec, options_.home);
    const int assign = add_node(*to.graph, "Begin", kAssignVariable, {handle, given},
                                {{"dtype", spec.dtype}, {"shape", spec.shape}}, options_.home);
    const CallPtr begin =
        to.prepare({given}, {add_completion(*to.graph, {assign}, options_.home)}, kPrepareLimit);
    to.session->run_callable(*begin, {value}, {.timeout = kPrepareLimit});
  }
  bound_[name] = cell;
  return to.handles[name] = handle;
}

CallPtr WorkerChannel::lower(Connected& to, const Closure& closure, const Places& places) {
  const Destination destination{
      .graph = *to.graph,
      .home = options_.home,
      .container = options_.container,
      .bind_iterator = [&](const auto& source) { return bind_iterator(to, source); },
      .bind_variable = [&](const auto& cell) { return bind_variable(to, cell); },
      .kept =
          [&](size_t argument) {
            return argument < places.size() ? places[argument] : std::nullopt;
          },
      .call_id = to.call_id,
      .own_call_id = to.own_call_id};
  CallPtr call;
  const Status status = capture_status([&] {
    LoweredFunction lowered =
        lower_to_worker(closure.trace->function(), closure.arguments, destination);
    std::vector<NodeOutput> feeds{to.call_id, to.own_call_id};
    if (options_.keep_results) {
      const NodeOutput done = lowered.fetches.back();
      lowered.fetches.pop_back();
      std::vector<NodeOutput> kept = lowered.fetches;
      kept.insert(kept.begin(), to.keep);
      const int keep = add_node(*to.graph, "KeepResults", kKeepResults, kept,
                                {{"container", options_.container}}, options_.home);
      lowered.fetches.push_back(add_completion(*to.graph, {done.node, keep}, options_.home));
      feeds.push_back(to.keep);
    }
    feeds.insert(feeds.end(), lowered.feeds.begin(), lowered.feeds.end());
    call = to.prepare(feeds, lowered.fetches, kPrepareLimit);
  });
  if (status.code == Code::DeadlineExceeded) {
    raise(Code::Unavailable, "[Coordinator] worker {} could not prepare function '{}': {}", task(),
          closure.trace->function().name, status.message);
  }
  throw_if_error(status);
  return call;
}

WorkerChannel::Places WorkerChannel::places_of(const Closure& closure) const {
  Places places;
  if (!closure.direct || !options_.keep_results) return places;
  for (const std::optional<RemoteArgument>& argument : closure.remote) {
    places.emplace_back();
    if (!argument) continue;
    const std::optional<KeptOn>& kept = argument->of(options_.worker)->kept();
    const std::optional<DeviceName> device = kept ? options_.find_kept(*kept) : std::nullopt;
    if (device) places.back() = KeptPlace{*device, argument->output};
  }
  return places;
}

WorkerChannel::Ready WorkerChannel::prepare(const Closure& closure, const Places& places) {
  std::vector<std::weak_ptr<const Resource>> resources;
  Key key{closure.trace.get(), {}, ""};
  for (const Tensor& argument : closure.arguments) {
    if (argument.is_symbolic() || argument.dtype() != kResource) continue;
    resources.push_back(resource_of(argument));
    std::get<1>(key).push_back(resource_of(argument).get());
  }
  for (const std::optional<KeptPlace>& place : places) {
    std::get<2>(key) +=
        place ? fmt::format("{} {};", place->device.to_string(), place->output) : ";";
  }
  std::shared_ptr<Connected> to = connected();
  if (const auto known = find_lowered(*to, key)) {
    // Another thread that lowers a function releases the state itself.
    const std::unique_lock if_free(lowering_, std::try_to_lock);
    if (if_free) release_state(*to);
    return {to->session, known, to->state};
  }
  const std::lock_guard one_at_a_time(lowering_);
  to = connected();
  if (to->is_spoiled) {  // by another thread, after this one has looked for a session
    open_session();
    to = connected();
  }
  if (const auto known = find_lowered(*to, key)) return {to->session, known, to->state};
  forget_dead(*to);
  release_state(*to);
  const int before = to->graph->size();
  CallPtr call;
  const Status status = capture_status([&] { call = lower(*to, closure, places); });
  if (!status.ok() && to->graph->size() > before) to->is_spoiled = true;
  throw_if_error(status);
  const std::lock_guard lock(mutex_);
  to->functions.emplace(
      key, Lowered{closure.trace, std::move(resources), call, to->graph->size() - before});
  return {to->session, call, to->state};
}

std::shared_ptr<WorkerChannel::Connected> WorkerChannel::connected() const {
  const std::lock_guard lock(mutex_);
  if (!connected_) raise(Code::Unavailable, "[Coordinator] worker {} is lost", task());
  return connected_;
}

// A dead entry belongs to another function that was at the same address.
CallPtr WorkerChannel::find_lowered(const Connected& at, const Key& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = at.functions.find(key);
  return found == at.functions.end() || found->second.is_dead() ? nullptr : found->second.call;
}

void WorkerChannel::release_state(Connected& to) {
  std::vector<std::string> names;
  for (const auto& [name, state] : bound_) {
    if (state.expired()) names.push_back(name);
  }
  if (names.empty()) return;
  forget_dead(to);  // the worker's plans of functions that used the state still refer to it
  if (!to.forget(names, options_.container, options_.home, kPrepareLimit)) return;
  for (const std::string& name : names) {
    bound_.erase(name);
    to.handles.erase(name);
  }
}

void WorkerChannel::forget_dead(Connected& from) {
  std::vector<CallPtr> ended;  // destroyed after the lock, because that sends messages
  const std::lock_guard lock(mutex_);
  std::erase_if(from.functions, [&](const auto& entry) {
    if (!entry.second.is_dead()) return false;
    ended.push_back(entry.second.call);
    from.dead_nodes += entry.second.nodes;
    return true;
  });
}

std::vector<Tensor> WorkerChannel::values_of(const Closure& closure, const Places& places) const {
  std::vector<Tensor> values;
  for (size_t i = 0; i < closure.arguments.size(); ++i) {
    const Tensor& argument = closure.arguments[i];
    if (argument.dtype() == kResource) continue;
    if (closure.remote.empty() || !closure.remote[i]) {
      values.push_back(argument);
      continue;
    }
    const RemoteArgument& remote = *closure.remote[i];
    const RemoteResult& result = *remote.of(options_.worker);
    const bool direct = i < places.size() && places[i];
    values.push_back(direct ? Tensor(result.kept()->call) : result.wait()[remote.output]);
  }
  return values;
}

Tensor WorkerChannel::keep_numbers(const Closure& closure) {
  constexpr int64_t kNothing = -1;
  const bool wanted = closure.result.use_count() > 1;
  std::vector<int64_t> numbers = unneeded_->take();
  numbers.insert(numbers.begin(), wanted ? closure.number : kNothing);
  return Tensor::from(numbers);
}

Results WorkerChannel::run(const Closure& closure, const CallIds& ids) {
  const Places places = places_of(closure);
  const Ready ready = prepare(closure, places);
  std::vector<Tensor> values{ids.servers, ids.own};
  if (options_.keep_results) values.push_back(keep_numbers(closure));
  std::ranges::move(values_of(closure, places), std::back_inserter(values));
  Results results{.tensors = ready.session->run_callable(*ready.call, values,
                                                         {.timeout = options_.function_timeout},
                                                         closure.draw_number)};
  results.tensors.pop_back();  // the output that says that the call is done
  if (options_.keep_results) {
    results.kept = KeptOn{options_.worker, ready.state, closure.number, unneeded_};
  }
  return results;
}

}  // namespace cohort::internal
