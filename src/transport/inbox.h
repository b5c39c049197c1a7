#pragma once

#include <optional>

#include "transport/connection.h"

namespace cohort::internal {

// Where the messages of one connection arrive: what a Delivery reads. Two kinds of threads read it,
// in turn: the connection's own (Background), and threads that wait for an answer (Foreground).
class Inbox {
 public:
  enum class Reader { Foreground, Background };

  virtual ~Inbox() = default;

  // The next message; nothing when none is there yet, or nothing will come any more. One thread at
  // a time calls it.
  virtual std::optional<Message> take() = 0;
  // Why nothing will come any more, once everything is taken.
  virtual std::optional<Status> ended() = 0;

  // Returns when take() or ended() may have something new, at the deadline, or after wake(). The
  // background reader sleeps on while the foreground attends, so that a message wakes one thread.
  virtual void wait(Reader reader, Deadline deadline) = 0;
  // Ends a wait of that reader, or its next one.
  virtual void wake(Reader reader) = 0;
  // Whether a foreground reader is there. When it leaves and something is left, the background
  // reader wakes.
  virtual void attend(bool in_foreground) = 0;
};

}  // namespace cohort::internal
