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
      accept(*channel);
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
  return lease_in(&Released::variables, device, name);
}

ParameterServers::Lease ParameterServers::lease_update(const DeviceName& device,
                                                       const std::string& name) {
  return lease_in(&Released::gathered, device, name);
}

ParameterServers::Lease ParameterServers::lease_in(std::vector<std::string> Released::*names,
                                                   const DeviceName& device,
                                                   const std::string& name) {
  Channel* const at = find_channel(device);  // lives as long as all of this
  if (at == nullptr) return nullptr;
  const auto release = [servers = weak_from_this(), names, at](const std::string* ended) {
    const std::unique_ptr<const std::string> held(ended);
    const auto alive = servers.lock();
    if (!alive) return;
    const std::lock_guard lock(at->mutex);
    (at->released.*names).push_back(*held);
  };
  return std::shared_ptr<const std::string>(new std::string(name), release);
}

bool ParameterServers::Released::contains(const std::string& name) const {
  return std::ranges::find(variables, name) != variables.end() ||
         std::ranges::find(gathered, name) != gathered.end();
}

void ParameterServers::Released::append(const Released& others) {
  variables.insert(variables.end(), others.variables.begin(), others.variables.end());
  gathered.insert(gathered.end(), others.gathered.begin(), others.gathered.end());
}

bool ParameterServers::Connected::is_worn_out() const {
  return dead_nodes > kMaxDeadNodes && dead_nodes > graph->size() / 2;
}

void ParameterServers::forget_released(Channel& channel) {
  Released names;
  {
    const std::lock_guard lock(channel.mutex);
    names = std::exchange(channel.released, {});
  }
  if (names.empty()) return;
  Connected& at = *channel.connected;
  if (!at.variables->forget(names.variables, kExamineLimit) ||
      !at.gathered->forget(names.gathered, kExamineLimit)) {
    const std::lock_guard lock(channel.mutex);
    channel.released.append(names);
    return;
  }
  std::erase_if(at.callables, [&](const auto& entry) {
    const auto is_released = [&](const std::string& name) { return names.contains(name); };
    if (std::ranges::none_of(entry.second.uses, is_released)) return false;
    at.dead_nodes += entry.second.nodes;
    return true;
  });
  const std::lock_guard lock(mutex_);
  for (const std::string& name : names.variables) names_.erase(name);
}

void ParameterServers::forget_released_everywhere() {
  for (const auto& channel : channels_) {
    {
      const std::lock_guard lock(channel->mutex);
      if (channel->released.empty()) continue;
    }
    const std::lock_guard one_at_a_time(channel->turn);
    if (channel->connected) forget_released(*channel);
  }
}

ParameterServers::Channel* ParameterServers::find_channel(const DeviceName& device) {
  for (const auto& channel : channels_) {
    if (channel->device == device) return channel.get();
  }
  return nullptr;
}

ParameterServers::Channel& ParameterServers::channel(const DeviceName& device) {
  if (Channel* const found = find_channel(device)) return *found;
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

void ParameterServers::accept(const std::string& task) { accept(channel(task)); }

void ParameterServers::accept(Channel& channel) {
  ConnectedPtr opened = open(channel, options_.connect_timeout);
  channel.incarnation = opened->session->server_incarnation();
  replace(channel, std::move(opened));
}

void ParameterServers::make(const GroupUpdate& update, const Tensor& claim) {
  forget_released_everywhere();
  run(update.home, {.key = update.name,
                    .make = [&] { return update.function; },
                    .values = {},
                    .uses = {update.name},
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
  for (const auto& channel : channels_) replace(*channel, nullptr);
}

ParameterServers::ConnectedPtr ParameterServers::open(const Channel& channel,
                                                      std::chrono::milliseconds limit) const {
  auto made = std::make_unique<Connected>();
  made->graph = std::make_shared<GraphImpl>();
  SessionOptions options;
  options.credentials = options_.credentials;
  options.silence_limit = options_.silence_limit;
  made->session = std::make_shared<RemoteSession>(made->graph, channel.address, options);
  made->session->open(limit);
  const std::string gathering = gathering_container(options_.container);
  made->variables.emplace(made->graph, made->session, options_.container, channel.device);
  made->gathered.emplace(made->graph, made->session, gathering, channel.device);
  return made;
}

ParameterServers::ConnectedPtr ParameterServers::open_again(const Channel& channel,
                                                            std::chrono::milliseconds limit) const {
  if (!channel.was_open || limit <= kExamineLimit) return open(channel, limit);
  ConnectedPtr opened;
  const Status status = capture_status([&] { opened = open(channel, kExamineLimit); });
  if (status.code == Code::DeadlineExceeded) return open(channel, limit - kExamineLimit);
  throw_if_error(status);
  return opened;
}

void ParameterServers::replace(Channel& channel, ConnectedPtr opened) {
  ConnectedPtr ended;  // let go of after the turn: its end may take a while
  const std::lock_guard one_at_a_time(channel.turn);
  if (opened) channel.was_open = true;
  ended = std::exchange(channel.connected, std::move(opened));
}

std::chrono::milliseconds ParameterServers::patience_for(const Channel& channel,
                                                         const Call& call) const {
  if (call.patience.count() > 0) return call.patience;
  return channel.was_open ? std::min(options_.silence_limit, options_.connect_timeout)
                          : options_.connect_timeout;
}

void ParameterServers::connect(Channel& channel, const Call& call) {
  const std::chrono::milliseconds limit = patience_for(channel, call);
  std::promise<Status> outcome;
  std::shared_future<Status> others;
  {
    const std::lock_guard lock(channel.mutex);
    others = channel.connecting;
    if (!others.valid()) channel.connecting = outcome.get_future().share();
  }
  if (others.valid()) {
    if (others.wait_for(limit) == std::future_status::ready) return throw_if_error(others.get());
    raise(Code::Unavailable,
          "[ParameterServerStrategy] {} at {} was not found within {} ms; check that the task runs",
          channel.device.split().first, channel.address, limit.count());
  }
  const Status status = capture_status([&] { replace(channel, open_again(channel, limit)); });
  {
    const std::lock_guard lock(channel.mutex);
    channel.connecting = {};
  }
  outcome.set_value(status);
  throw_if_error(status);
}

void ParameterServers::prepare(Channel& channel, const Call& call, Ready& ready) {
  while (true) {
    {
      const std::lock_guard one_at_a_time(channel.turn);
      if (channel.connected) forget_released(channel);
      if (channel.connected && !channel.connected->is_worn_out()) {
        ready.session = channel.connected->session;
        ready.call = find_or_add(channel, call);
        return;
      }
    }
    connect(channel, call);
  }
}

std::shared_ptr<const PreparedCall> ParameterServers::find_or_add(const Channel& channel,
                                                                  const Call& call) {
  const auto& known = channel.connected->callables;
  if (!known.contains(call.key)) add_callable(channel, call);
  return known.at(call.key).call;
}

void ParameterServers::add_callable(const Channel& channel, const Call& call) {
  Connected& at = *channel.connected;
  GraphImpl& graph = *at.graph;
  const int before = graph.size();
  Destination to{.graph = graph, .home = channel.device, .container = options_.container};
  std::vector<Tensor> feeds, fetches;
  if (call.claim) {
    to.claim = add_placeholder(graph, "claim", {kInt64, Shape{3}}, channel.device);
    feeds.push_back(graph.symbol(*to.claim));
  }
  const ShippedFunction shipped = ship(*call.make(), call.values, to);
  for (const NodeOutput feed : shipped.feeds) feeds.push_back(graph.symbol(feed));
  for (const NodeOutput fetch : shipped.fetches) fetches.push_back(graph.symbol(fetch));
  auto made = at.session->make_callable(feeds, fetches, call.patience);
  at.callables.emplace(call.key,
                       Connected::Prepared{std::move(made), call.uses, graph.size() - before});
}

void ParameterServers::prepare_in_time(Channel& channel, const Call& call, Ready& ready) {
  Status status = capture_status([&] { prepare(channel, call, ready); });
  if (status.code == Code::DeadlineExceeded) status.code = Code::Unavailable;
  throw_if_error(status);
}

void ParameterServers::drop(Channel& channel, const std::shared_ptr<RemoteSession>& failed) {
  ConnectedPtr ended;  // let go of after the turn: its end may take a while
  const std::lock_guard one_at_a_time(channel.turn);
  if (channel.connected && channel.connected->session == failed) {
    ended = std::move(channel.connected);
  }
}

std::vector<Tensor> ParameterServers::run(const DeviceName& device, const Call& call) {
  Channel& at = channel(device);
  std::vector<Tensor> values = call.values;
  if (call.claim) values.insert(values.begin(), *call.claim);
  for (int attempt = 0;; ++attempt) {
    std::vector<Tensor> results;
    Ready ready;
    Status status = capture_status([&] {
      prepare_in_time(at, call, ready);
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
    if (is_stale(status) || status.code == Code::Unavailable) drop(at, ready.session);
    if (attempt == 0 && is_stale(status)) continue;
    throw Error(status);
  }
}

}  // namespace cohort::internal
