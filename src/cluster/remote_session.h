#pragma once

#include <map>
#include <memory>

#include "base/mutex.h"
#include "cluster/request_link.h"
#include "graph/serialize_graph.h"
#include "rpc/heartbeat.h"
#include "runtime/session_impl.h"
#include "transport/connection.h"

namespace cohort::internal {

// The client's side of a session on a server.
class RemoteSession : public SessionImpl, public std::enable_shared_from_this<RemoteSession> {
 public:
  RemoteSession(std::shared_ptr<GraphImpl> graph, std::string address,
                const SessionOptions& options);
  ~RemoteSession() override;

  // Must be called first. Throws if the server cannot be reached within the limit; 0 means the
  // limit of the session's options.
  void open(std::chrono::milliseconds limit = {});
  // Ends the runs under way with Cancelled, as far as the server answers.
  void cancel_runs();

  // Has the server's task forget the state of these containers, unless a later chief has them. If
  // the server does not answer within the limit, the connection ends.
  void clear_containers(const ClearContainers& request, std::chrono::milliseconds limit);

  // Whether the connection to the server has ended, and with it what the server kept for the
  // session.
  bool is_lost() const {
    const std::lock_guard lock(mutex_);
    return !link_ || link_->ended() || !link_end_.ok();
  }

  // Tells a server from one that was started later at the same address.
  uint64_t server_incarnation() const { return link()->peer().incarnation; }

  std::vector<std::string> list_devices() const override;
  void close() override;

 private:
  struct Run;
  struct Call {
    std::atomic<bool> done{false};
    StepDone result;
  };

  void check_open() const override;
  std::shared_ptr<const PreparedRun> make_run(const RunRequest& request,
                                              std::chrono::milliseconds limit) override;
  std::vector<Tensor> execute(const PreparedRun& run, const std::vector<Tensor>& values,
                              const CallSetting& setting) override;

  // Tells the server that the run is not needed any more.
  void release(uint64_t run);
  void extend(Deadline deadline);
  Link::Pointer connect(Deadline deadline);
  Link::Pointer link() const {
    const std::lock_guard lock(mutex_);
    return link_;
  }
  void receive(const Message& message);
  void fail_calls(const Status& why);
  StepDone wait_for(Call& call, uint64_t id, Link& link, std::chrono::milliseconds limit);
  // Throws the error of a connection with the address of its server.
  [[noreturn]] void raise_lost(const Status& status) const;
  // Throws the status unless it is OK. A server that has forgotten the session does not know why,
  // so the error adds why the connection before ended.
  void throw_explained(Status status) const;
  // The result of a call whose connection ended before the answer.
  Status lost(const Peer& server, const Status& end) const;
  // As Link::call. Throws Unavailable also if this side has ended the connection because the server
  // was silent.
  Answer call(Link& link, Message request, Deadline deadline) const;
  // A request whose answer has one number.
  Answer ask(Message request, Deadline deadline);

  const std::string address_;
  const SessionOptions options_;
  std::unique_ptr<Endpoint> endpoint_;
  Heartbeat heartbeat_;

  Turn extending_;      // before mutex_
  GraphWriter writer_;  // guarded by extending_, like the next member
  uint64_t version_ = 0;

  mutable Mutex mutex_;
  Link::Pointer link_;  // guarded by mutex_, like all members below
  uint64_t session_ = 0;
  std::map<uint64_t, std::shared_ptr<Call>> calls_;
  uint64_t next_call_ = 1;
  bool closed_ = false;
  Status link_end_;  // why the last connection ended, if one did

  LinkWatch watch_;  // it calls until it is gone, so it goes first
};

}  // namespace cohort::internal
