#include "cluster/remote_session.h"

#include "base/activity.h"
#include "base/log.h"
#include "base/raise.h"
#include "base/time_limit.h"
#include "cluster/protocol.h"

namespace cohort::internal {
namespace {

using Clock = std::chrono::steady_clock;

// How long opening may look for the server, unless the session has a limit of its own.
constexpr auto kOpenLimit = std::chrono::seconds(30);
// How long a server that was lost may take to show that it is back.
constexpr auto kServerReturnLimit = std::chrono::milliseconds(1000);
// How much longer than the limit of a run the server may take to report the end of the run.
constexpr auto kGrace = std::chrono::seconds(5);
constexpr auto kClosingLimit = std::chrono::seconds(12);

std::chrono::milliseconds remaining(Deadline deadline) {
  return std::max(std::chrono::milliseconds(1),
                  std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()));
}

void give_up_server(const Link::Pointer& server, std::chrono::milliseconds limit) {
  server->close({.code = Code::Unavailable,
                 .message = fmt::format(
                     "[Session] {} was silent for {:.1f} s on the connection of the session: the "
                     "network has cut the connection, or the server is frozen; "
                     "SessionOptions::silence_limit says how long a server may be silent",
                     server->peer().name, std::chrono::duration<double>(limit).count())});
}

}  // namespace

// A run that the server has prepared; its end releases what the tasks keep for it.
struct RemoteSession::Run : PreparedRun {
  Run(std::weak_ptr<RemoteSession> its_session, uint64_t its_id)
      : session(std::move(its_session)), id(its_id) {}
  ~Run() override {
    if (const auto open = session.lock()) open->release(id);
  }

  const std::weak_ptr<RemoteSession> session;
  const uint64_t id;
};

RemoteSession::RemoteSession(std::shared_ptr<GraphImpl> graph, std::string address,
                             const SessionOptions& options)
    : SessionImpl(graph),
      address_(std::move(address)),
      options_(options),
      endpoint_(make_client_endpoint(options.credentials)),
      heartbeat_({.credentials = options.credentials, .limit = options.silence_limit}),
      writer_(graph),
      watch_(options.silence_limit, [limit = options.silence_limit](const Link::Pointer& link) {
        give_up_server(link, limit);
      }) {}

RemoteSession::~RemoteSession() {
  close();
  if (link_) link_->close({.code = Code::Cancelled, .message = "[Session] the session was closed"});
  endpoint_->stop();
}

void RemoteSession::open(std::chrono::milliseconds limit) {
  if (limit.count() <= 0) limit = request_limit(options_.timeout.value_or(kOpenLimit));
  const Deadline deadline = Clock::now() + limit;
  const Link::Pointer link = connect(deadline);
  const OpenSession request{
      .options = options_, .client = endpoint_->self().name, .graph = buffer_of(writer_.next())};
  const Answer answer = call(*link, encode(request), deadline);
  if (answer.numbers.size() != 2) raise(Code::Internal, "[Session] the server's answer is short");
  session_ = answer.numbers[0];
  version_ = answer.numbers[1];
}

Link::Pointer RemoteSession::connect(Deadline deadline) {
  if (Link::Pointer known = link(); known && !known->ended()) return known;
  std::shared_ptr<Connection> connection;
  const Status status =
      capture_status([&] { connection = endpoint_->connect(address_, deadline); });
  if (!status.ok()) raise_lost(status);
  // Outside the lock, because a connection that has ended already calls `ended` at once.
  const Link::Pointer made =
      Link::start(std::move(connection), "",
                  {.received =
                       [self = weak_from_this()](const Link::Pointer&, const Message& message) {
                         if (const auto alive = self.lock()) alive->receive(message);
                       },
                   .ended =
                       [self = weak_from_this()](const Link::Pointer&, const Status& why) {
                         if (const auto alive = self.lock()) alive->fail_calls(why);
                       }});
  if (made->connection()->kind() != "in-process") {
    heartbeat_.watch(made->peer(), [weak = std::weak_ptr<Link>(made)](const Status& why) {
      if (const Link::Pointer alive = weak.lock()) alive->close(why);
    });
  }
  // Heartbeats may pass where the network has cut this connection.
  if (made->connection()->kind() == "grpc") watch_.watch(made);
  Link::Pointer before;  // released after the lock
  const std::lock_guard lock(mutex_);
  before = std::exchange(link_, made);
  return made;
}

void RemoteSession::raise_lost(const Status& status) const {
  Status lost = status;
  lost.message = fmt::format("[Session] the server at grpc://{}: {}", address_, status.message);
  throw Error(std::move(lost));
}

void RemoteSession::check_open() const {
  const std::lock_guard lock(mutex_);
  if (closed_) raise(Code::FailedPrecondition, "[Session] the session is closed; make a new one");
}

void RemoteSession::receive(const Message& message) {
  if (kind_of(message) == MessageKind::Notice) {
    log_warning("{}", decode<Notice>(message).text);
    return;
  }
  if (kind_of(message) != MessageKind::StepDone) return;
  auto result = decode<StepDone>(message);
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(result.call);
  if (found == calls_.end()) return;
  found->second->result = std::move(result);
  found->second->done = true;
}

void RemoteSession::fail_calls(const Status& why) {
  const std::lock_guard lock(mutex_);
  link_end_ = why;
  for (const auto& [id, call] : calls_) {
    if (call->done) continue;
    call->result.status = lost(link_->peer(), why);
    call->done = true;
  }
}

Status RemoteSession::lost(const Peer& server, const Status& end) const {
  const bool closed_here = end.code == Code::Cancelled && end.cause;
  const Status& why = closed_here ? *end.cause : end;
  return {.code = Code::Unavailable,
          .message =
              fmt::format("[Session] the server at grpc://{} is lost: {}", address_, why.message),
          .origin = server.name,
          .cause = std::make_shared<const Status>(why)};
}

Answer RemoteSession::call(Link& link, Message request, Deadline deadline) const {
  Answer answer;
  const Status status = capture_status([&] { answer = link.call(std::move(request), deadline); });
  if (link.ended() && status.code == Code::Cancelled) throw Error(lost(link.peer(), status));
  throw_if_error(status);
  return answer;
}

void RemoteSession::extend(Deadline deadline) {
  const std::lock_guard one_at_a_time(extending_);
  if (!writer_.has_more()) return;
  const ExtendSession request{
      .session = session_, .version = version_, .graph = buffer_of(writer_.next())};
  const Answer answer = ask(encode(request), deadline);
  version_ = answer.numbers[0];
}

Answer RemoteSession::ask(Message request, Deadline deadline) {
  const Link::Pointer link = connect(Clock::now() + kServerReturnLimit);
  Answer answer;
  throw_explained(capture_status([&] { answer = call(*link, std::move(request), deadline); }));
  if (answer.numbers.size() != 1) raise(Code::Internal, "[Session] the server's answer is short");
  return answer;
}

void RemoteSession::throw_explained(Status status) const {
  if (status.code == Code::Aborted) {
    const std::lock_guard lock(mutex_);
    if (!link_end_.ok()) {
      status.message += "; before that the connection ended: " + link_end_.message;
    }
  }
  throw_if_error(status);
}

void RemoteSession::release(uint64_t run) {
  Link::Pointer link;
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || !link_ || link_->ended()) return;
    link = link_;
  }
  link->post(encode(ReleaseRun{.session = session_, .item = run}));
}

std::shared_ptr<const PreparedRun> RemoteSession::make_run(const RunRequest& request,
                                                           std::chrono::milliseconds limit) {
  if (graph().size() == 0) raise(Code::FailedPrecondition, "[Session] the graph has no nodes");
  check_placeholders(graph(), request);
  if (limit.count() <= 0) limit = request_limit(options_.timeout.value_or(kOpenLimit));
  const Deadline deadline = Clock::now() + limit;
  extend(deadline + kGrace);
  PrepareRun message{.session = session_, .limit = remaining(deadline)};
  for (const NodeOutput feed : request.feeds) message.feeds.push_back(output_name(graph(), feed));
  for (const NodeOutput fetch : request.fetches) {
    message.fetches.push_back(output_name(graph(), fetch));
  }
  for (const int node : request.over) message.over.push_back(graph().node(node).name);
  const Answer answer = ask(encode(message), deadline + kGrace);
  for (const std::string& line : answer.texts) print_placement(line);
  return std::make_shared<Run>(weak_from_this(), answer.numbers[0]);
}

std::vector<Tensor> RemoteSession::execute(const PreparedRun& run,
                                           const std::vector<Tensor>& values,
                                           const CallSetting& setting) {
  check_open();
  const Link::Pointer link = connect(Clock::now() + kServerReturnLimit);
  const auto& timeout = setting.options.timeout;
  const auto limit = request_limit(timeout ? timeout : options_.timeout);
  const auto call = std::make_shared<Call>();
  RunStep message{.session = session_,
                  .run = static_cast<const Run&>(run).id,
                  .limit = limit,
                  .trace = setting.metadata != nullptr,
                  .number = setting.number,
                  .feeds = values};
  {
    const std::lock_guard lock(mutex_);
    message.call = next_call_++;
    calls_[message.call] = call;
  }
  StepDone result;
  const Status status = capture_status([&] {
    link->send(encode(message));
    result = wait_for(*call, message.call, *link, limit);
  });
  {
    const std::lock_guard lock(mutex_);
    calls_.erase(message.call);
  }
  if (!status.ok()) raise_lost(status);
  throw_explained(std::move(result.status));
  if (setting.metadata != nullptr) setting.metadata->nodes = std::move(result.timings);
  return std::move(result.fetches);
}

StepDone RemoteSession::wait_for(Call& call, uint64_t id, Link& link,
                                 std::chrono::milliseconds limit) {
  const Deadline deadline = limit.count() > 0 ? Clock::now() + limit + kGrace : Deadline::max();
  const Status status = capture_status([&] {
    const auto done = [&] { return call.done.load(); };
    const auto began = Clock::now();
    const Deadline until_note =
        waits_on_purpose(limit) ? deadline : std::min<Deadline>(deadline, began + stall_limit());
    if (link.connection()->deliver_until(done, until_note)) return;
    const WaitNote note(WaitKind::Answer, "a run of a session at " + address_, {link.peer().name},
                        began);
    if (link.connection()->deliver_until(done, deadline)) return;
    link.post(encode(CancelStep{.session = session_, .item = id}));
    raise(Code::DeadlineExceeded, "[Session] the run took longer than {} ms", limit.count());
  });
  if (!call.done) throw Error(status);
  return std::move(call.result);
}

void RemoteSession::cancel_runs() {
  std::vector<uint64_t> running;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, call] : calls_) {
      if (!call->done) running.push_back(id);
    }
  }
  for (const uint64_t id : running) {
    link()->post(encode(CancelStep{.session = session_, .item = id}));
  }
}

void RemoteSession::clear_containers(const ClearContainers& request,
                                     std::chrono::milliseconds limit) {
  const Link::Pointer at = link();
  if (!at || at->ended()) return;
  const Status status = capture_status([&] { at->call(encode(request), Clock::now() + limit); });
  if (status.ok()) return;
  log_debug("[Session] clearing containers of {}: {}", at->peer().name, status.message);
  at->close(status);
}

std::vector<std::string> RemoteSession::list_devices() const {
  check_open();
  auto& self = const_cast<RemoteSession&>(*this);
  return self.connect(Clock::now() + kServerReturnLimit)
      ->call(encode(ListDevices{session_}), Clock::now() + kOpenLimit + kGrace)
      .texts;
}

void RemoteSession::close() {
  Link::Pointer link;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return;
    link = link_;
  }
  if (!link || link->ended() || link->closed()) return;
  const Status status = capture_status(
      [&] { link->call(encode(CloseSession{session_}), Clock::now() + kClosingLimit); });
  if (!status.ok()) log_warning("[Session] closing the session failed: {}", status.to_string());
}

std::shared_ptr<SessionImpl> open_remote_session(std::shared_ptr<GraphImpl> graph,
                                                 const std::string& address,
                                                 const SessionOptions& options) {
  auto session = std::make_shared<RemoteSession>(std::move(graph), address, options);
  session->open();
  return session;
}

}  // namespace cohort::internal
