#include "coordinator/parameter_servers.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/raise.h"
#include "cluster/ask_server.h"
#include "coordinator/graph_nodes.h"
#include "coordinator/shipping.h"

namespace cohort::internal {
namespace {

// A server that is there answers at once.
constexpr std::chrono::milliseconds kExamineLimit{1000};
// To find the server again that is to make one; whether it is lost is for others to find out.
constexpr std::chrono::milliseconds kUpdatePatience{5000};

// A session that cannot be used any more, and what it was asked has not happened.
bool is_stale(const Status& status) { return status.code == Code::Aborted; }

}  // namespace

ParameterServers::ParameterServers(const ClusterSpec& cluster, ParameterServersOptions options)
    : options_(std::move(options)) {
  for (const int index : cluster.task_indices("ps")) {
    channels_.push_back(std::make_unique<Channel>());
    channels_.back()->device =
        DeviceName::parse(fmt::format("/job:ps/replica:0/task:{}/device:CPU:0", index));
    channels_.back()->address = cluster.task_address("ps", index);
  }
}

void ParameterServers::take_over() {
  const auto deadline = std::chrono::steady_clock::now() + options_.connect_timeout;
  std::string missing;
  Code code = Code::Unavailable;
  for (const auto& channel : channels_) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    const Status status = capture_status([&] {
      clear_containers(channel->address,
                       {options_.container, gathering_container(options_.container)},
                       options_.credentials, std::max(left, std::chrono::milliseconds(100)));
      const std::lock_guard one_at_a_time(channel->turn);
      open(*channel, options_.connect_timeout);
      channel->incarnation = channel->session->server_incarnation();
    });
    if (status.ok()) continue;
    missing += fmt::format("; {} at {}: {}", channel->device.split().first, channel->address,
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

ParameterServers::Lease ParameterServers::lease(const DeviceName& device, const std::string& name) {
  const auto release = [servers = weak_from_this(), device](const std::string* ended) {
    const std::unique_ptr<const std::string> held(ended);
    const auto alive = servers.lock();
    if (!alive) return;
    Channel& at = alive->channel(device);
    const std::lock_guard lock(at.released_mutex);
    at.released.push_back(*held);
  };
  return std::shared_ptr<const std::string>(new std::string(name), release);
}

void ParameterServers::forget_released(Channel& channel) {
  std::vector<std::string> names;
  {
    const std::lock_guard lock(channel.released_mutex);
    names = std::exchange(channel.released, {});
  }
  if (names.empty()) return;
  if (!channel.releaser->forget(names, kExamineLimit)) {
    const std::lock_guard lock(channel.released_mutex);
    channel.released.insert(channel.released.end(), names.begin(), names.end());
    return;
  }
  const auto is_released = [&](const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  std::erase_if(channel.callables, [&](const auto& entry) {
    if (std::ranges::none_of(entry.second.variables, is_released)) return false;
    channel.dead_nodes += entry.second.nodes;
    return true;
  });
  const std::lock_guard lock(mutex_);
  for (const std::string& name : names) names_.erase(name);
}

ParameterServers::Channel& ParameterServers::channel(const DeviceName& device) {
  for (const auto& channel : channels_) {
    if (channel->device == device) return *channel;
  }
  raise(Code::InvalidArgument, "[ParameterServerStrategy] {} is no parameter server",
        device.to_string());
}

ParameterServers::Channel& ParameterServers::channel(const std::string& task) {
  for (const auto& channel : channels_) {
    if (channel->device.split().first == task) return *channel;
  }
  raise(Code::InvalidArgument, "[ParameterServerStrategy] {} is no parameter server", task);
}

ParameterServers::Condition ParameterServers::examine(const std::string& task) {
  const Channel& at = channel(task);
  uint64_t found = 0;
  const Status status = capture_status([&] {
    SessionOptions options;
    options.credentials = options_.credentials;
    const auto session =
        std::make_shared<RemoteSession>(std::make_shared<GraphImpl>(), at.address, options);
    session->open(kExamineLimit);
    found = session->server_incarnation();
  });
  if (status.code == Code::Unavailable) return Condition::Gone;
  if (!status.ok()) return Condition::Silent;
  return found == at.incarnation ? Condition::Sound : Condition::Restarted;
}

std::string ParameterServers::find_restarted() {
  for (const auto& channel : channels_) {
    const std::string task = channel->device.split().first;
    if (examine(task) == Condition::Restarted) return task;
  }
  return "";
}

void ParameterServers::accept(const std::string& task) {
  Channel& at = channel(task);
  const std::lock_guard one_at_a_time(at.turn);
  open(at, options_.connect_timeout);
  at.incarnation = at.session->server_incarnation();
}

void ParameterServers::make(const GroupUpdate& update, const Tensor& claim) {
  run(update.home, {.key = update.name,
                    .make = [&] { return update.function; },
                    .values = {},
                    .claim = claim,
                    .limit = options_.silence_limit,
                    .patience = std::min(kUpdatePatience, options_.connect_timeout)});
}

void ParameterServers::forget_gathered() {
  for (const auto& channel : channels_) {
    clear_containers(channel->address, {gathering_container(options_.container)},
                     options_.credentials, kExamineLimit);
  }
}

void ParameterServers::close_sessions() {
  for (const auto& channel : channels_) {
    std::shared_ptr<RemoteSession> ended;  // let go of after the turn: its end may take a while
    const std::lock_guard one_at_a_time(channel->turn);
    ended = take_session(*channel);
  }
}

std::shared_ptr<RemoteSession> ParameterServers::take_session(Channel& channel) {
  channel.releaser.reset();
  channel.callables.clear();
  return std::move(channel.session);
}

void ParameterServers::open(Channel& channel, std::chrono::milliseconds limit) {
  auto graph = std::make_shared<GraphImpl>();
  SessionOptions options;
  options.credentials = options_.credentials;
  auto session = std::make_shared<RemoteSession>(graph, channel.address, options);
  session->open(limit);
  channel.graph = std::move(graph);
  channel.session = std::move(session);
  channel.releaser.emplace(channel.graph, channel.session, options_.container, channel.device);
  channel.callables.clear();
  channel.dead_nodes = 0;
}

ParameterServers::Ready ParameterServers::prepare(Channel& channel, const Call& call) {
  const std::lock_guard one_at_a_time(channel.turn);
  if (channel.session != nullptr) forget_released(channel);
  if (channel.session == nullptr || channel.dead_nodes > kMaxDeadNodes) {
    open(channel, call.patience.count() > 0 ? call.patience : options_.connect_timeout);
  }
  auto found = channel.callables.find(call.key);
  if (found == channel.callables.end()) {
    GraphImpl& graph = *channel.graph;
    const int before = graph.size();
    Destination to{.graph = graph, .home = channel.device, .container = options_.container};
    std::vector<Tensor> feeds, fetches;
    if (call.claim) {
      to.claim = add_placeholder(graph, "claim", {kInt64, Shape{3}}, channel.device);
      feeds.push_back(graph.symbol(*to.claim));
    }
    const ShippedFunction shipped = ship(*call.make(), call.values, to);
    for (const Endpoint feed : shipped.feeds) feeds.push_back(graph.symbol(feed));
    for (const Endpoint fetch : shipped.fetches) fetches.push_back(graph.symbol(fetch));
    auto made = channel.session->make_callable(feeds, fetches, call.patience);
    found = channel.callables
                .emplace(call.key,
                         Channel::Prepared{std::move(made), call.variables, graph.size() - before})
                .first;
  }
  return {channel.session, found->second.call};
}

ParameterServers::Ready ParameterServers::prepare_in_time(Channel& channel, const Call& call) {
  Ready ready;
  Status status = capture_status([&] { ready = prepare(channel, call); });
  if (status.code == Code::DeadlineExceeded) status.code = Code::Unavailable;
  throw_if_error(status);
  return ready;
}

std::vector<Tensor> ParameterServers::run(const DeviceName& device, const Call& call) {
  Channel& at = channel(device);
  std::vector<Tensor> values = call.values;
  if (call.claim) values.insert(values.begin(), *call.claim);
  for (int attempt = 0;; ++attempt) {
    std::vector<Tensor> results;
    Ready ready;
    Status status = capture_status([&] {
      ready = prepare_in_time(at, call);
      results = ready.session->run_callable(*ready.call, values, {.timeout = call.limit});
    });
    if (status.ok()) {
      results.pop_back();  // that it is done
      return results;
    }
    if (call.limit.count() > 0 && status.code == Code::DeadlineExceeded) {
      status.code = Code::Unavailable;
      ready.session->abandon(status);
    }
    std::shared_ptr<RemoteSession> ended;  // let go of after the turn: its end may take a while
    const std::lock_guard one_at_a_time(at.turn);
    const bool is_over = is_stale(status) || status.code == Code::Unavailable;
    const bool is_replaced = ready.session && ready.session != at.session;
    if (is_over && !is_replaced) ended = take_session(at);
    if (attempt == 0 && is_stale(status)) continue;
    throw Error(status);
  }
}

}  // namespace cohort::internal
