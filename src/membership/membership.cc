#include "membership/membership.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/host_identity.h"
#include "base/random_number.h"
#include "rpc/grpc_endpoint.h"

namespace cohort::internal {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick{50};
// Connecting waits, so several threads do it for a leader whose workers are missing.
constexpr int kMaxDialers = 4;

const Status kOver{.code = Code::Cancelled, .message = "[Membership] the connection is not needed"};

}  // namespace

void Membership::EventGate::run(const std::function<void()>& handle) {
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    ++running_;
  }
  const auto end = [this](void*) {
    const std::lock_guard lock(mutex_);
    --running_;
    changed_.notify_all();
  };
  const std::unique_ptr<void, decltype(end)> ends(this, end);  // also if `handle` throws
  handle();
}

void Membership::EventGate::stop() {
  std::unique_lock lock(mutex_);
  is_over_ = true;
  changed_.wait(lock, [this] { return running_ == 0; });
}

Membership::Membership(WorkerList workers, Options options)
    : workers_(std::move(workers)), options_(std::move(options)) {
  const Status status = capture_status([&] {
    listen(describe_self());
    await_group();
  });
  if (status.ok()) return;
  stop();
  throw Error(status);
}

Membership::~Membership() { stop(); }

void Membership::stop() {
  heartbeat_.reset();
  for (Thread& dialer : dialers_) dialer.request_stop();
  gate_->stop();  // the messages of events that run are sent before their connections end
  if (endpoint_) endpoint_->stop();
  dialers_.clear();
}

Member Membership::describe_self() const {
  const auto& [name, address] = workers_.own();
  return {.peer = {.name = name,
                   .incarnation = random_number(),
                   .address = address,
                   .host = host_identity(),
                   .build = COHORT_VERSION},
          .id = static_cast<uint64_t>(workers_.self),
          .workers = static_cast<uint64_t>(workers_.size()),
          .replicas = options_.replicas,
          .cluster = shortened(workers_.cluster),
          .settings = shortened(options_.settings),
          .engine = options_.engine,
          .shares_memory = transport_from_environment() != TransportKind::Grpc,
          .process = process_description(),
          .generation = options_.generation};
}

void Membership::listen(const Member& self) {
  const auto make_bootstrap = [&](const Member& member) {
    const std::lock_guard lock(mutex_);
    bootstrap_ = std::make_unique<Bootstrap>(
        Bootstrap::Options{.workers = workers_,
                           .self = member,
                           .timeout = std::chrono::duration_cast<milliseconds>(options_.timeout),
                           .component = options_.component});
  };
  make_bootstrap(self);
  EndpointOptions options{
      .self = self.peer, .credentials = options_.credentials, .spans_hosts = workers_.spans_hosts};
  options.self.settings = encode_settings(self);
  const Status failure = capture_status([&] {
    endpoint_ = make_endpoint(options, [this, gate = gate_](std::shared_ptr<Connection> opened) {
      gate->run([&] { accept(std::move(opened)); });
    });
  });
  if (failure.ok()) return;
  // Another endpoint tells the other workers, as a client.
  Member client = self;
  client.peer.address.clear();
  make_bootstrap(client);
  options.self = client.peer;
  options.self.name = "a worker in " + process_description();
  options.self.settings = encode_settings(client);
  endpoint_ = make_endpoint(options);
  const Status why{
      .code = failure.code,
      .message = fmt::format("[{}] worker {}, {} ({}), cannot listen at "
                             "{}; if another process is worker {} too, give each its own index",
                             options_.component, workers_.self, self.peer.name, self.process,
                             self.peer.address, workers_.self),
      .origin = self.peer.name,
      .cause = std::make_shared<const Status>(failure)};
  handle([&](Bootstrap& bootstrap) { return bootstrap.fail(now(), why); });
}

void Membership::await_group() {
  start_dialers();
  for (;;) {
    handle([&](Bootstrap& bootstrap) { return bootstrap.time_passed(now()); });
    drop_ended();
    report_wait();
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, kTick, [&] { return is_finished_; })) break;
  }
  note_ = {};
  for (Thread& dialer : dialers_) dialer.request_stop();
  set_group();
}

void Membership::set_group() {
  {
    const std::lock_guard lock(mutex_);
    if (!bootstrap_->is_formed()) throw Error(bootstrap_->failure());
    group_.generation = bootstrap_->generation();
    members_ = bootstrap_->members();
  }
  group_.rank = workers_.self;
  for (const Member& member : members_) {
    group_.peers.push_back(member.peer);
    group_.hosts.push_back(member.shares_memory ? member.peer.host : "");
  }
  pending_.open(endpoint_, group_);
}

size_t Membership::workers_on_host() const {
  const std::string& host = members_[static_cast<size_t>(workers_.self)].peer.host;
  return static_cast<size_t>(std::count_if(
      members_.begin(), members_.end(), [&](const auto& each) { return each.peer.host == host; }));
}

bool Membership::is_newcomer() const {
  return options_.generation == 0 && std::any_of(members_.begin(), members_.end(),
                                                 [](const auto& each) { return each.resumes(); });
}

void Membership::watch(milliseconds silence_limit, const Lost& lost) {
  drop_ended();
  heartbeat_ = std::make_unique<Heartbeat>(
      HeartbeatOptions{.credentials = options_.credentials, .limit = silence_limit});
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank == group_.rank) continue;
    heartbeat_->watch(group_.peers[static_cast<size_t>(rank)],
                      [this, rank, lost](const Status& why) {
                        {
                          const std::lock_guard lock(mutex_);
                          bootstrap_->group_lost();
                        }
                        lost(rank, why);
                      });
  }
}

// ---- Connections

void Membership::start_dialers() {
  for (int i = 0; i < std::min(kMaxDialers, workers_.size()); ++i) {
    dialers_.emplace_back("dialer", [this](const std::stop_token& stop) { run_dialer(stop); });
  }
}

void Membership::run_dialer(const std::stop_token& stop) {
  for (;;) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [&] { return !to_dial_.empty(); })) return;
    const int worker = to_dial_.front();
    to_dial_.pop_front();
    lock.unlock();
    dial(worker);
  }
}

void Membership::dial(int worker) {
  std::shared_ptr<Connection> made;
  const Status status = capture_status([&] {
    made = endpoint_->connect(workers_.workers[static_cast<size_t>(worker)].address,
                              Clock::now() + Bootstrap::kConnectTime);
  });
  gate_->run([&] {
    if (status.ok()) return open(std::move(made), worker);
    handle([&](Bootstrap& bootstrap) { return bootstrap.connect_failed(now(), worker, status); });
  });
}

void Membership::accept(std::shared_ptr<Connection> connection) {
  if (connection->peer().generation != 0) return pending_.accept()(std::move(connection));
  drop_ended();
  open(std::move(connection), {});
}

void Membership::open(std::shared_ptr<Connection> connection, std::optional<int> dialed) {
  uint64_t id = 0;
  Actions actions;
  {
    const std::lock_guard lock(mutex_);
    id = next_connection_++;
    open_[id].connection = connection;
    actions = bootstrap_->connected(now(), id, connection->peer(), dialed);
  }
  // Only now: the machine must know the connection before a message comes.
  const Status started = capture_status([&] {
    connection->start(
        {.received = [this, gate = gate_,
                      id](const Message& message) { gate->run([&] { received(id, message); }); },
         .ended = [this, gate = gate_, id](const Status&) { gate->run([&] { lost(id); }); }});
  });
  perform(actions);
  if (!started.ok()) lost(id);  // no event will tell
}

void Membership::received(uint64_t connection, const Message& message) {
  const Status status = capture_status([&] {
    MessageReader reader(message, "a message between workers");
    const auto decoded = decode_rest<BootstrapMessage>(reader);
    handle([&](Bootstrap& bootstrap) { return bootstrap.received(now(), connection, decoded); });
  });
  if (!status.ok()) rare_log_.warning("{}", status.message);
}

void Membership::lost(uint64_t connection) {
  handle([&](Bootstrap& bootstrap) {
    open_[connection].is_ended = true;
    return bootstrap.lost(now(), connection);
  });
}

// ---- What the machine says

void Membership::handle(const std::function<Actions(Bootstrap&)>& event) {
  Actions actions;
  {
    const std::lock_guard lock(mutex_);
    actions = event(*bootstrap_);
  }
  perform(actions);
}

void Membership::perform(const Actions& actions) {
  for (const Bootstrap::Action& action : actions) perform(action);
}

void Membership::perform(const Bootstrap::Action& action) {
  using Kind = Bootstrap::Action::Kind;
  switch (action.kind) {
    case Kind::Connect: {
      const std::lock_guard lock(mutex_);
      to_dial_.push_back(action.worker);
      return changed_.notify_all();
    }
    case Kind::Send: {
      Message message;
      MessageWriter(message, workers_.own().name)(action.message);
      // A peer that is gone is noticed by the end of its connection.
      (void)capture_status([&] {
        if (const auto to = find(action.connection)) to->post(std::move(message));
      });
      return;
    }
    case Kind::Close:
      if (const auto connection = find(action.connection)) connection->close(kOver);
      return;
    case Kind::Warn:
      return rare_log_.warning("{}", action.text);
    case Kind::Finish: {
      const std::lock_guard lock(mutex_);
      is_finished_ = true;
      return changed_.notify_all();
    }
  }
}

void Membership::drop_ended() {
  std::vector<std::shared_ptr<Connection>> ended;
  const std::lock_guard lock(mutex_);
  std::erase_if(open_, [&](auto& entry) {
    if (entry.second.is_ended) ended.push_back(std::move(entry.second.connection));
    return entry.second.is_ended;
  });
}

void Membership::report_wait() {
  const auto time = Clock::now();
  std::vector<int> missing;
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    if (is_finished_ || !bootstrap_->failure().ok()) return;
    missing = bootstrap_->missing();
    text = bootstrap_->describe_missing();
  }
  if (time >= began_ + stall_limit() && missing != noted_) {
    std::vector<std::string> names;
    for (const int id : missing) names.push_back(workers_.workers[static_cast<size_t>(id)].name);
    // A leader that is there may itself wait for another worker.
    const WaitKind kind = workers_.self == 0 ? WaitKind::Tensor : WaitKind::Answer;
    note_ = WaitNote(kind, "the beginning of " + options_.component, names, began_);
    noted_ = missing;
  }
  if (time < next_report_) return;
  next_report_ = time + (next_report_ - began_);
  log_warning("[{}] {} has waited {:.0f} s for {}", options_.component, workers_.own().name,
              std::chrono::duration<double>(time - began_).count(), text);
}

Bootstrap::Time Membership::now() const {
  return std::chrono::duration_cast<Bootstrap::Time>(Clock::now() - began_);
}

}  // namespace cohort::internal
