#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/mutex.h"
#include "cohort/credentials.h"
#include "transport/party.h"

namespace cohort::internal {

// How a worker goes to others to introduce itself: as a client, whether or not it can be reached
// itself. Thread-safe.
class Visits {
 public:
  // Gets what those who are visited answer, and the end of a visit, on other threads.
  struct Events {
    std::function<void(const Message&)> answered = {};
    std::function<void(const std::shared_ptr<Connection>&, const Status&)> ended = {};
  };
  Visits(const Credentials& credentials, Events events);
  // Waits for the events that are being handled. No event follows.
  ~Visits();

  // Goes there and says it. Throws as Party::connect. The visit lasts until either side ends it.
  std::shared_ptr<Connection> visit(const std::string& address, Deadline deadline,
                                    const Message& said);

 private:
  struct Visit {
    std::shared_ptr<Connection> connection = {};
    std::shared_ptr<std::atomic<bool>> ended = {};
  };

  // What the connections know of this object. A connection may outlive the object: its last event
  // holds a reference to the connection while it runs.
  struct Handlers {
    std::mutex mutex;
    std::condition_variable changed;
    bool over = false;  // guarded by mutex, as the next
    int running = 0;

    // Calls `handle`, unless the Visits is gone.
    template <typename Handle>
    void run(const Handle& handle);
    void stop();
  };

  const Events events_;
  const std::shared_ptr<Handlers> handlers_ = std::make_shared<Handlers>();
  Mutex mutex_;
  // Guarded by mutex_. A connection is not let go of in its own event.
  std::vector<Visit> open_;
  std::unique_ptr<Party> party_;
};

// "process 4711 on node3"
std::string this_process();

}  // namespace cohort::internal
