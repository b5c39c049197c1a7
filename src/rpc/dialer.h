#pragma once

#include <atomic>
#include <optional>

#include "cohort/credentials.h"
#include "rpc/greeting.h"
#include "rpc/grpc_errors.h"
#include "rpc/pump.h"
#include "rpc/stream_call.h"

namespace cohort::internal {

// Calls who listens at an address, until somebody does.
class Dialer {
 public:
  Dialer(std::shared_ptr<Pump> pump, Greeting self, Credentials credentials)
      : pump_(std::move(pump)), self_(std::move(self)), credentials_(std::move(credentials)) {}

  // A call whose greeting was answered, and fits.
  struct Answered {
    std::shared_ptr<ClientCall> call = {};
    Greeting from = {};
  };
  // Tries again with growing pauses, until the deadline, what may pass. Throws as
  // Party::connect does, and Cancelled after stop().
  Answered dial(const std::string& address, Deadline deadline);

  // Says that the call carries the messages from here on.
  void stay(const Answered& answered, Deadline deadline);
  // Ends the call: the messages go another way.
  void leave(const Answered& answered);

  // Ends what goes on.
  void stop();

 private:
  // One operation of a call: begins it with a tag, and waits. False when it failed. At the deadline
  // the call is cancelled, which ends it.
  bool run(ClientCall& call, const std::function<void(void* tag)>& begin, Deadline deadline);
  std::optional<Answered> try_once(const std::string& address, Deadline deadline,
                                   CallFailure& failure);
  void check_answer(const Answered& answered) const;
  grpc::Status finish(ClientCall& call);
  void pause(Deadline until);
  void check_stopped() const;

  const std::shared_ptr<Pump> pump_;
  const Greeting self_;
  const Credentials credentials_;
  std::atomic<bool> stopping_ = false;
};

}  // namespace cohort::internal
