#include "cluster/master.h"

#include "base/raise.h"
#include "base/random_number.h"
#include "cluster/task_directory.h"
#include "runtime/thread_pool.h"

namespace cohort::internal {
namespace {

constexpr auto kResetLimit = std::chrono::seconds(30);

// The options that the session asks for; the default of the server where it asks for none.
SessionOptions merged(SessionOptions asked, const SessionOptions& defaults) {
  asked.log_device_placement |= defaults.log_device_placement;
  asked.allow_soft_placement |= defaults.allow_soft_placement;
  asked.enable_bfloat16_sendrecv |= defaults.enable_bfloat16_sendrecv;
  asked.isolate_session_state |= defaults.isolate_session_state;
  asked.isolate_session_state |= asked.cluster.has_value() && !asked.share_cluster_state;
  if (!asked.timeout) asked.timeout = defaults.timeout;
  if (asked.device_filters.empty()) asked.device_filters = defaults.device_filters;
  return asked;
}

Status unknown_session() {
  return {.code = Code::Aborted,
          .message =
              "[Session] the server does not know this session: it was restarted, or reset; "
              "open a new one"};
}

}  // namespace

Master::SessionPointer Master::find(const Link::Pointer& client, uint64_t session) const {
  const std::lock_guard lock(mutex_);
  const auto found = sessions_.find(session);
  return found != sessions_.end() && found->second->is_of(client) ? found->second : nullptr;
}

Master::SessionPointer Master::find_running(uint64_t session) const {
  const std::lock_guard lock(mutex_);
  if (const auto open = sessions_.find(session); open != sessions_.end()) return open->second;
  const auto found = closing_.find(session);
  return found == closing_.end() ? nullptr : found->second.lock();
}

void Master::begin_closing(const SessionPointer& session) {
  std::erase_if(closing_, [](const auto& entry) { return entry.second.expired(); });
  closing_[session->id()] = session;
  sessions_.erase(session->id());
}

Master::SessionPointer Master::get(const Link::Pointer& client, uint64_t session) const {
  SessionPointer found = find(client, session);
  if (!found) throw Error(unknown_session());
  return found;
}

std::vector<Master::SessionPointer> Master::sessions() const {
  const std::lock_guard lock(mutex_);
  std::vector<SessionPointer> all;
  for (const auto& [id, session] : sessions_) all.push_back(session);
  return all;
}

Answer Master::open(const Link::Pointer& client, OpenSession request) {
  request.options = merged(std::move(request.options), defaults_);
  const auto session = std::make_shared<MasterSession>(random_number(), client, request, peers_,
                                                       timers_, worker_.devices());
  const std::lock_guard lock(mutex_);
  throw_if_error(stopped_);
  if (client->ended()) raise(Code::Cancelled, "[Session] the client is gone");
  sessions_[session->id()] = session;
  return {.numbers = {session->id(), 1}};
}

Answer Master::close(const Link::Pointer& client, uint64_t session) {
  const SessionPointer closing = find(client, session);
  if (!closing) return {};
  {
    const std::lock_guard lock(mutex_);
    begin_closing(closing);
  }
  closing->close({.code = Code::Cancelled, .message = "[Session] the session was closed"});
  return {};
}

void Master::close_all(const Status& why) {
  const std::vector<SessionPointer> closing = sessions();
  {
    const std::lock_guard lock(mutex_);
    for (const SessionPointer& session : closing) begin_closing(session);
  }
  for (const SessionPointer& session : closing) session->close(why);
}

Answer Master::reset(const std::vector<std::string>& containers) {
  close_all({.code = Code::Aborted, .message = "[Session] the server was reset; open a new one"});
  const Gathering waiting{.what = "Reset",
                          .deadline = std::chrono::steady_clock::now() + kResetLimit,
                          .notice = [](const std::string&) {}};
  with_tasks(TaskDirectory(peers_), task_names(peers_->cluster()), waiting,
             [&](size_t, const Link::Pointer& link) {
               link->call(encode(ClearContainers{.containers = containers}), waiting.deadline);
             });
  return {};
}

void Master::run(const Link::Pointer& client, RunStep run) {
  if (const SessionPointer session = find(client, run.session)) {
    session->run(std::move(run));
  } else {
    client->post(encode(StepDone{.call = run.call, .status = unknown_session()}, peers_->self()));
  }
}

std::optional<PendingWait> Master::pending_wait(const Link::Pointer& client) const {
  for (const SessionPointer& session : sessions()) {
    if (!session->is_of(client)) continue;
    if (std::optional<PendingWait> pending_wait = session->pending_wait()) return pending_wait;
  }
  return std::nullopt;
}

void Master::lost(const Link::Pointer& link, const Status& why) {
  for (const SessionPointer& session : sessions()) {
    session->lost(link, why);
    if (!session->is_of(link)) continue;
    run_pool().submit([this_session = session] {
      this_session->close({.code = Code::Cancelled, .message = "[Session] the client is gone"});
    });
    const std::lock_guard lock(mutex_);
    begin_closing(session);
  }
}

void Master::stop(const Status& why) {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = why;
  }
  close_all(why);
}

std::vector<ServerStatus::Session> Master::status() const {
  std::vector<ServerStatus::Session> all;
  for (const SessionPointer& session : sessions()) {
    all.push_back(
        {.id = session->id(), .client = session->client_name(), .steps = session->num_steps()});
  }
  return all;
}

}  // namespace cohort::internal
