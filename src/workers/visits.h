#pragma once

#include <atomic>
#include <functional>
#include <memory>
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
  ~Visits();  // no event afterwards

  // Goes there and says it. Throws as Party::connect. The visit lasts until either side ends it.
  std::shared_ptr<Connection> visit(const std::string& address, Deadline deadline,
                                    const Message& said);

 private:
  struct Visit {
    std::shared_ptr<Connection> connection = {};
    std::shared_ptr<std::atomic<bool>> ended = {};
  };

  const Events events_;
  Mutex mutex_;
  // Guarded by mutex_. A connection is not let go of in its own event.
  std::vector<Visit> open_;
  std::unique_ptr<Party> party_;
};

// "process 4711 on node3"
std::string this_process();

}  // namespace cohort::internal
