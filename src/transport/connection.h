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

// Who is at an end of a connection.
struct Peer {
  std::string name = {};     // a task, "/job:worker/replica:0/task:1", or "client 4711 on host"
  uint64_t incarnation = 0;  // random, new with every start of the task
  std::string address = {};  // where it listens; empty for a client
  uint64_t cluster = 0;      // fingerprint of the cluster that it belongs to; 0: none
};

// What has gone over a connection, payloads and headers.
struct Traffic {
  uint64_t messages_sent = 0;
  uint64_t messages_received = 0;
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
};

// Messages both ways between two parties, in order and without loss until the connection ends. How
// they travel depends on the distance; everything above is the same for all ways. Thread-safe.
//
// A thread that holds a Mutex does not send, close or read, see base/mutex.h.
//
// Once ended it stays so: every call fails with what ended it. A peer that dies ends it at once;
// one that is silent is found out by whoever sends heartbeats.
class Connection {
 public:
  struct Events {
    // One call at a time, in the order of sending, on the thread that read the message. While it
    // runs, nothing else is delivered: hand long work to another thread. It may send.
    std::function<void(Message)> received;
    // Once, after the last message: why the connection ended. Cancelled when this side closed it.
    std::function<void(const Status&)> ended;
  };

  // Ends the connection as close() does. No event is delivered afterwards.
  virtual ~Connection() = default;

  // Begins to deliver; called once. What arrived before waits until then.
  virtual void start(Events events) = 0;

  // Messages of one thread arrive in their order. Waits while the other side takes nothing and too
  // much is on its way already. The payloads must not change from here on. Throws what ended the
  // connection.
  virtual void send(Message message) = 0;
  // The same without waiting: what finds no room is kept until there is some. For threads that
  // others wait for.
  virtual void post(Message message) = 0;

  // Delivers on this thread until `done` says true, which is asked after every message, or the time
  // is up; then returns done(). Who waits for an answer calls this, so that the answer wakes one
  // thread and not two. Other threads may call it at the same time; one of them delivers.
  virtual bool deliver_until(const std::function<bool()>& done, Deadline deadline) = 0;
  // Makes those who are in deliver_until ask `done` again: something else made it true.
  virtual void wake() = 0;

  // The other side gets what was sent before, then `why`. Waits for no one. Harmless when ended.
  virtual void close(const Status& why) = 0;

  virtual const Peer& peer() const = 0;
  virtual std::string_view kind() const = 0;  // "in-process", "shared-memory", "grpc"
  virtual Traffic traffic() const = 0;
};

}  // namespace cohort::internal
