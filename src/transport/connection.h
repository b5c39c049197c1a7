#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cohort/error.h"
#include "transport/message.h"

namespace cohort::internal {

using Deadline = std::chrono::steady_clock::time_point;

// What an end of a connection says about itself, in the handshake that opens the connection.
struct Peer {
  std::string name = {};     // a task, "/job:worker/replica:0/task:1", or "client 4711 on host"
  uint64_t incarnation = 0;  // random, new with every start of the task
  std::string address = {};  // where it listens; empty for a client
  uint64_t cluster = 0;      // fingerprint of the cluster that it belongs to; 0: none
  std::string host = {};     // host_identity() of its process
  std::string build = {};    // the version of its library
  // Of the group that the connection belongs to; 0: the connection belongs to none.
  uint64_t generation = 0;
  // What workers that form a group tell each other, see membership/member.h.
  std::string settings = {};
};

// What has gone over a connection, payloads and headers.
struct Traffic {
  uint64_t messages_sent = 0;
  uint64_t messages_received = 0;
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
};

// Messages both ways between two endpoints, in order and without loss until the connection ends.
// How messages are sent depends on the distance between the two; callers see no difference.
// Thread-safe.
//
// A thread that holds a Mutex does not send, close or read, see base/mutex.h.
//
// A connection that has ended stays so: every call fails with the status that ended it. The death
// of the peer's process ends the connection at once; heartbeats find out a silent peer.
class Connection {
 public:
  struct Events {
    // Called for one message at a time, in the order of sending, on the thread that read the
    // message. Nothing else is delivered during the call: hand long work to another thread. The
    // call may send.
    std::function<void(Message)> received;
    // Called once, after the last message: why the connection ended. Cancelled when this side
    // closed it.
    std::function<void(const Status&)> ended;
  };

  // Ends the connection as close() does. No event is delivered afterwards.
  virtual ~Connection() = default;

  // Begins to deliver, with the messages that have arrived already. Called once.
  virtual void start(Events events) = 0;

  // Messages of one thread arrive in their order. Waits while the other side takes nothing and too
  // much is on its way already. The payloads must not change afterwards. Throws what ended the
  // connection.
  virtual void send(Message message) = 0;
  // The same without waiting: a message that finds no room is kept. For threads that other threads
  // wait for.
  virtual void post(Message message) = 0;

  // Delivers on this thread until done(), which is called after every message, or the deadline;
  // returns done(). A thread that waits for an answer calls this, so that the answer wakes one
  // thread and not two. Several threads may call this at the same time; one of them delivers.
  virtual bool deliver_until(const std::function<bool()>& done, Deadline deadline) = 0;
  // Makes the threads inside deliver_until call done() again: something else made it true.
  virtual void wake() = 0;

  // The other side gets what was sent before, then `why`. Does not wait. Harmless when ended.
  virtual void close(const Status& why) = 0;

  virtual const Peer& peer() const = 0;
  virtual std::string_view kind() const = 0;  // "in-process", "shared-memory", "grpc"
  virtual Traffic traffic() const = 0;
  // Grows with everything that comes in and while a long message goes out. A connection whose
  // number stands still although the other side was asked something has lost the other side.
  virtual uint64_t progress() const { return traffic().messages_received; }
};

// What accepts connections and opens connections to other endpoints. A client's endpoint only opens
// connections. Thread-safe.
class Endpoint {
 public:
  // Gets every connection that another endpoint opens; starts it, or drops it to refuse it. Runs on
  // threads of the endpoint, perhaps on several at once, and should not block.
  using Accept = std::function<void(std::shared_ptr<Connection>)>;

  // Stops as stop() does.
  virtual ~Endpoint() = default;

  // A new connection to the endpoint at "host:port", by the nearest transport that both sides have.
  // While the address has no listener, tries again with growing pauses until the deadline. Throws
  // Unavailable or DeadlineExceeded (no listener, unknown name: the text says which),
  // Unauthenticated or PermissionDenied (certificate, token, role), FailedPrecondition (another
  // version, another cluster). `generation`: see Peer. `is_wanted`, if given, is asked between the
  // tries; connect() throws Cancelled when the answer is no. connect() never cuts a try short: the
  // other side may have accepted the connection, and would take its end for a lost task.
  virtual std::shared_ptr<Connection> connect(const std::string& address, Deadline deadline,
                                              uint64_t generation = 0,
                                              const std::function<bool()>& is_wanted = {}) = 0;

  virtual const Peer& self() const = 0;

  // Accepts no more connections and ends every connection with Cancelled "the server was stopped".
  // The port is free when stop() returns.
  virtual void stop() = 0;
};

}  // namespace cohort::internal
