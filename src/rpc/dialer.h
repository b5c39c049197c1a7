#pragma once

#include <atomic>
#include <optional>

#include "cohort/cluster.h"
#include "rpc/completion_queue_thread.h"
#include "rpc/grpc_errors.h"
#include "rpc/handshake.h"
#include "rpc/stream_call.h"

namespace cohort::internal {

// Calls an address until a task answers there.
class Dialer {
 public:
  Dialer(std::shared_ptr<CompletionQueueThread> queue_thread, Handshake self,
         Credentials credentials)
      : queue_thread_(std::move(queue_thread)),
        self_(std::move(self)),
        credentials_(std::move(credentials)) {}

  // A call whose handshake was answered, and fits this endpoint's.
  struct Answered {
    std::shared_ptr<ClientCall> call = {};
    Handshake from = {};
  };
  // Tries again with growing pauses until the deadline, if the failure may pass. Throws as
  // Endpoint::connect does, and Cancelled after stop(). `generation`, `is_wanted`: as there.
  Answered dial(const std::string& address, Deadline deadline, uint64_t generation = 0,
                const std::function<bool()>& is_wanted = {});

  // Tells the answering side that the call carries the messages from here on.
  void stay(const Answered& answered, Deadline deadline);
  // Ends the call: shared memory carries the messages.
  void leave(const Answered& answered) {
    answered.call->cancel();
    finish(*answered.call);
  }

  // Ends the calls that are under way.
  void stop() {
    stopping_ = true;
    queue_thread_->wake();
  }

 private:
  // One operation of a call: begins it with a tag, and waits. False when it failed. At the deadline
  // the call is cancelled, which ends it.
  bool run(ClientCall& call, const std::function<void(void* tag)>& begin, Deadline deadline);
  std::optional<Answered> try_once(const std::string& address, Deadline deadline,
                                   const std::string& handshake, CallFailure& failure);
  grpc::Status finish(ClientCall& call);
  void check_stopped() const;

  const std::shared_ptr<CompletionQueueThread> queue_thread_;
  const Handshake self_;
  const Credentials credentials_;
  std::atomic<bool> stopping_ = false;
};

}  // namespace cohort::internal
