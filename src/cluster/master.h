#pragma once

#include <memory>
#include <unordered_map>

#include "base/mutex.h"
#include "cluster/master_session.h"
#include "cluster/worker.h"

namespace cohort::internal {

// The side of a task that serves clients. Thread-safe.
class Master {
 public:
  Master(std::shared_ptr<Peers> peers, Worker& worker, SessionOptions defaults)
      : peers_(std::move(peers)), worker_(worker), defaults_(std::move(defaults)) {}

  // Requests that may take long.
  Answer open(const Link::Pointer& client, OpenSession request);
  Answer extend(const Link::Pointer& client, const ExtendSession& request) {
    return {.numbers = {get(client, request.session)->extend(request)}};
  }
  Answer prepare(const Link::Pointer& client, const PrepareRun& request) {
    return get(client, request.session)->prepare(request);
  }
  Answer list_devices(const Link::Pointer& client, uint64_t session) {
    return {.texts = get(client, session)->list_devices()};
  }
  Answer close(const Link::Pointer& client, uint64_t session);
  Answer reset(const std::vector<std::string>& containers);

  // Messages of steps.
  void run(const Link::Pointer& client, RunStep run);
  void cancel(const Link::Pointer& client, const CancelStep& cancel) {
    if (const SessionPointer session = find(client, cancel.session)) session->cancel(cancel);
  }
  void release(const Link::Pointer& client, const ReleaseRun& release) {
    if (const SessionPointer session = find(client, release.session))
      session->release(release.item);
  }
  void done(const Link::Pointer& task, PlanDone outcome) {
    if (const SessionPointer session = find_running(outcome.session)) {
      session->done(task, std::move(outcome));
    }
  }

  // What the runs of the client wait for, if another task has to answer.
  std::optional<PendingWait> pending_wait(const Link::Pointer& client) const;

  // The link ended. If it was to a task, the steps of the task fail; if it was to a client, the
  // sessions of the client are closed.
  void lost(const Link::Pointer& link, const Status& why);
  // Closes the sessions of all clients. Requests that come later fail with `why`.
  void stop(const Status& why);

  std::vector<ServerStatus::Session> status() const;
  // Adds the waits for answers of other tasks since before that time.
  void add_waits(std::chrono::steady_clock::time_point before, std::vector<LongWait>& waits) const {
    for (const SessionPointer& session : sessions()) session->add_waits(before, waits);
  }

 private:
  using SessionPointer = std::shared_ptr<MasterSession>;
  // Null if the client has no such session.
  SessionPointer find(const Link::Pointer& client, uint64_t session) const;
  // Throws Aborted when the client has no such session.
  SessionPointer get(const Link::Pointer& client, uint64_t session) const;
  std::vector<SessionPointer> sessions() const;
  // Of any client, also among the sessions that are being closed.
  SessionPointer find_running(uint64_t session) const;
  void begin_closing(const SessionPointer& session);  // mutex_ is held
  void close_all(const Status& why);

  const std::shared_ptr<Peers> peers_;
  Worker& worker_;
  const SessionOptions defaults_;
  const std::shared_ptr<Timers> timers_ = std::make_shared<Timers>();
  mutable Mutex mutex_;
  std::unordered_map<uint64_t, SessionPointer>
      sessions_;  // guarded by mutex_, like the next member
  // Sessions that clients have closed and whose steps still have to end.
  std::unordered_map<uint64_t, std::weak_ptr<MasterSession>> closing_;
  Status stopped_;
};

}  // namespace cohort::internal
