#include "coordinator/parameter_servers.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/raise.h"
#include "cluster/ask_server.h"
#include "coordinator/lower_to_worker.h"

namespace cohort::internal {
namespace {

// A server that is there answers at once.
constexpr std::chrono::milliseconds kExamineLimit{1000};
// How long an update may take to find its server again. The failure handling finds out whether the
// server is lost.
constexpr std::chrono::milliseconds kUpdateLimit{5000};

// Whether the session cannot be used any more and the call has not happened.
bool is_stale(const Status& status) { return status.code == Code::Aborted; }

}  // namespace

int64_t chief_number() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

ParameterServers::ParameterServers(const ClusterSpec& cluster, ParameterServersOptions options)
    : options_(std::move(options)) {
  for (const int index : cluster.task_indices("ps")) {
    connections_.push_back(std::make_unique<ServerConnection>());
    connections_.back()->device =
        DeviceName::parse(fmt::format("/job:ps/replica:0/task:{}/device:CPU:0", index));
    connections_.back()->address = cluster.task_address("ps", index);
  }
}

ParameterServers::~ParameterServers() {
  for (const auto& connection : connections_) {
    if (!took_over_ || !connection->connected) continue;
    connection->connected->session->clear_containers(
        {{options_.container, gathering_container(options_.container)}, options_.chief},
        kExamineLimit);
  }
}

void ParameterServers::take_over() {
  took_over_ = true;
  const auto deadline = deadline_after(options_.connect_timeout);
  std::string missing;
  Code code = Code::Unavailable;
  for (const auto& connection : connections_) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    const Status status = capture_status([&] {
      clear_containers(
          connection->address,
          {{options_.container, gathering_container(options_.container)}, options_.chief},
          options_.credentials, std::max(left, std::chrono::milliseconds(100)));
      accept(*connection);
    });
    if (status.ok()) continue;
    missing += fmt::format("; {} at {}: {}", connection->device.split().first, connection->address,
                           status.message);
    if (status.code != Code::DeadlineExceeded && status.code != Code::Unavailable) {
      code = status.code;  // waiting for the server would not help
    }
  }
  if (missing.empty()) return;
  raise(code, "[ParameterServerStrategy] parameter servers are missing after {} ms{}",
        options_.connect_timeout.count(), missing);
}

std::string ParameterServers::unique_name(const std::string& name) {
  const std::lock_guard lock(mutex_);
  std::string free = name;
  while (!names_.insert(free).second) free = fmt::format("{}_{}", name, ++numbers_[name]);
  return free;
}

ParameterServers::Lease ParameterServers::lease_in(const std::string& container,
                                                   const DeviceName& device,
                                                   const std::string& name) {
  ServerConnection* const at = find_connection(device);  // lives as long as this object
  if (at == nullptr) return nullptr;
  const auto release = [servers = weak_from_this(), container, at](const std::string* ended) {
    const std::unique_ptr<const std::string> held(ended);
    const auto alive = servers.lock();
    if (!alive) return;
    const std::lock_guard lock(at->mutex);
    at->released[container].push_back(*held);
  };
  return std::shared_ptr<const std::string>(new std::string(name), release);
}

void ParameterServers::forget_released(ServerConnection& connection) {
  Released released;
  {
    const std::lock_guard lock(connection.mutex);
    released = std::exchange(connection.released, {});
  }
  if (released.empty()) return;
  Connected& at = *connection.connected;
  std::set<std::string> gone;
  for (const auto& [container, names] : released) {
    if (!at.forget(names, container, connection.device, kExamineLimit)) {
      const std::lock_guard lock(connection.mutex);
      for (const auto& [each, again] : released) {
        connection.released[each].insert(connection.released[each].end(), again.begin(),
                                         again.end());
      }
      return;
    }
    gone.insert(names.begin(), names.end());
  }
  std::erase_if(at.callables, [&](const auto& entry) {
    const auto is_gone = [&](const std::string& name) { return gone.contains(name); };
    if (std::ranges::none_of(entry.second.uses, is_gone)) return false;
    at.dead_nodes += entry.second.nodes;
    return true;
  });
  const std::lock_guard lock(mutex_);
  for (const std::string& name : released[options_.container]) names_.erase(name);
}

void ParameterServers::forget_released_everywhere() {
  for (const auto& connection : connections_) {
    {
      const std::lock_guard lock(connection->mutex);
      if (connection->released.empty()) continue;
    }
    const std::lock_guard one_at_a_time(connection->turn);
    if (connection->connected) forget_released(*connection);
  }
}

ParameterServers::ServerConnection* ParameterServers::find_connection(const DeviceName& device) {
  for (const auto& connection : connections_) {
    if (connection->device == device) return connection.get();
  }
  return nullptr;
}

ParameterServers::ServerConnection& ParameterServers::connection(const DeviceName& device) {
  if (ServerConnection* const found = find_connection(device)) return *found;
  raise(Code::InvalidArgument, "[ParameterServerStrategy] {} is not a parameter server",
        device.to_string());
}

ParameterServers::ServerConnection& ParameterServers::connection(const std::string& task) {
  for (const auto& connection : connections_) {
    if (connection->device.split().first == task) return *connection;
  }
  raise(Code::InvalidArgument, "[ParameterServerStrategy] {} is not a parameter server", task);
}

ParameterServers::Condition ParameterServers::examine(const std::string& task) {
  const ServerConnection& at = connection(task);
  uint64_t found = 0;
  const Status status =
      capture_status([&] { found = open(at, kExamineLimit)->session->server_incarnation(); });
  if (status.code == Code::Unavailable) return Condition::Gone;
  if (!status.ok()) return Condition::Silent;
  return found == at.incarnation ? Condition::Sound : Condition::Restarted;
}

std::string ParameterServers::find_restarted() {
  for (const auto& connection : connections_) {
    const std::string task = connection->device.split().first;
    if (examine(task) == Condition::Restarted) return task;
  }
  return "";
}

void ParameterServers::make(const GroupUpdate& update, const Tensor& call_id) {
  forget_released_everywhere();
  run(update.home, {.key = update.name,
                    .make = [&] { return update.function; },
                    .values = {},
                    .uses = {update.name},
                    .call_id = call_id,
                    .connect_limit = std::min(kUpdateLimit, options_.connect_timeout)});
}

void ParameterServers::forget_gathered() {
  for (const auto& connection : connections_) {
    clear_containers(connection->address,
                     {{gathering_container(options_.container)}, options_.chief},
                     options_.credentials, kExamineLimit);
  }
}

ParameterServers::ConnectedPtr ParameterServers::open(const ServerConnection& connection,
                                                      std::chrono::milliseconds limit) const {
  SessionOptions options;
  options.credentials = options_.credentials;
  options.silence_limit = options_.silence_limit;
  auto made = std::make_unique<Connected>(connection.address, options);
  made->session->open(limit);
  return made;
}

ParameterServers::ConnectedPtr ParameterServers::open_again(const ServerConnection& connection,
                                                            std::chrono::milliseconds limit) const {
  if (!connection.was_open || limit <= kExamineLimit) return open(connection, limit);
  ConnectedPtr opened;
  const Status status = capture_status([&] { opened = open(connection, kExamineLimit); });
  if (status.code == Code::DeadlineExceeded) return open(connection, limit - kExamineLimit);
  throw_if_error(status);
  return opened;
}

void ParameterServers::replace(ServerConnection& connection, ConnectedPtr opened) {
  ConnectedPtr ended;  // destroyed after the turn, because that may take a while
  const std::lock_guard one_at_a_time(connection.turn);
  if (opened) connection.was_open = true;
  ended = std::exchange(connection.connected, std::move(opened));
}

void ParameterServers::connect(ServerConnection& connection, const Call& call) {
  std::chrono::milliseconds limit = call.connect_limit;
  if (limit.count() <= 0) {
    limit = connection.was_open ? std::min(options_.silence_limit, options_.connect_timeout)
                                : options_.connect_timeout;
  }
  std::promise<Status> outcome;
  std::shared_future<Status> others;
  {
    const std::lock_guard lock(connection.mutex);
    others = connection.connecting;
    if (!others.valid()) connection.connecting = outcome.get_future().share();
  }
  if (others.valid()) {
    if (others.wait_for(limit) == std::future_status::ready) return throw_if_error(others.get());
    raise(Code::Unavailable,
          "[ParameterServerStrategy] {} at {} was not found within {} ms; check that the task runs",
          connection.device.split().first, connection.address, limit.count());
  }
  const Status status = capture_status([&] { replace(connection, open_again(connection, limit)); });
  {
    const std::lock_guard lock(connection.mutex);
    connection.connecting = {};
  }
  outcome.set_value(status);
  throw_if_error(status);
}

void ParameterServers::prepare(ServerConnection& connection, const Call& call, Ready& ready) {
  while (true) {
    {
      const std::lock_guard one_at_a_time(connection.turn);
      if (connection.connected) forget_released(connection);
      if (connection.connected && !connection.connected->is_worn_out()) {
        ready.session = connection.connected->session;
        ready.call = find_or_add(connection, call);
        return;
      }
    }
    connect(connection, call);
  }
}

CallPtr ParameterServers::find_or_add(const ServerConnection& connection, const Call& call) {
  Connected& at = *connection.connected;
  const auto known = at.callables.find(call.key);
  if (known != at.callables.end()) return known->second.call;
  const int before = at.graph->size();
  CallPtr made;
  const Status status = capture_status([&] { made = add(connection, call); });
  if (!status.ok() && at.graph->size() > before) at.is_spoiled = true;
  throw_if_error(status);
  at.callables.emplace(call.key, Connected::Prepared{made, call.uses, at.graph->size() - before});
  return made;
}

CallPtr ParameterServers::add(const ServerConnection& connection, const Call& call) const {
  Connected& at = *connection.connected;
  Destination to{.graph = *at.graph, .home = connection.device, .container = options_.container};
  std::vector<NodeOutput> feeds;
  if (call.call_id) {
    to.call_id = add_placeholder(*at.graph, "call_id", {kInt64, Shape{3}}, connection.device);
    feeds.push_back(*to.call_id);
  }
  const LoweredFunction lowered = lower_to_worker(*call.make(), call.values, to);
  feeds.insert(feeds.end(), lowered.feeds.begin(), lowered.feeds.end());
  return at.prepare(feeds, lowered.fetches, call.connect_limit);
}

void ParameterServers::drop(ServerConnection& connection,
                            const std::shared_ptr<RemoteSession>& failed) {
  ConnectedPtr ended;  // destroyed after the turn, because that may take a while
  const std::lock_guard one_at_a_time(connection.turn);
  if (connection.connected && connection.connected->session == failed) {
    ended = std::move(connection.connected);
  }
}

std::vector<Tensor> ParameterServers::run(const DeviceName& device, const Call& call) {
  ServerConnection& at = connection(device);
  std::vector<Tensor> values = call.values;
  if (call.call_id) values.insert(values.begin(), *call.call_id);
  for (int attempt = 0;; ++attempt) {
    std::vector<Tensor> results;
    Ready ready;
    Status status = capture_status([&] { prepare(at, call, ready); });
    if (status.code == Code::DeadlineExceeded) status.code = Code::Unavailable;
    if (status.ok()) {
      status =
          capture_status([&] { results = ready.session->run_callable(*ready.call, values, {}); });
    }
    if (status.ok()) {
      results.pop_back();  // the output that says that the call is done
      return results;
    }
    if (is_stale(status) || status.code == Code::Unavailable) drop(at, ready.session);
    if (attempt == 0 && is_stale(status)) continue;
    throw Error(status);
  }
}

}  // namespace cohort::internal
