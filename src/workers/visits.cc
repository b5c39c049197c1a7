#include "workers/visits.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "rpc/endpoint.h"

namespace cohort::internal {

std::string this_process() {
  char name[HOST_NAME_MAX + 1] = {};
  const bool known = gethostname(name, HOST_NAME_MAX) == 0;
  return fmt::format("process {} on {}", getpid(), known ? name : "?");
}

Visits::Visits(const Credentials& credentials, Events events)
    : events_(std::move(events)),
      party_(make_endpoint(
          {.self = {.name = "a worker in " + this_process()}, .credentials = credentials})) {}

Visits::~Visits() { party_->stop(); }

std::shared_ptr<Connection> Visits::visit(const std::string& address, Deadline deadline,
                                          const Message& said) {
  const Visit made{party_->connect(address, deadline), std::make_shared<std::atomic<bool>>(false)};
  std::vector<Visit> over;
  {
    const std::lock_guard lock(mutex_);
    const auto live = std::stable_partition(open_.begin(), open_.end(),
                                            [](const Visit& visit) { return !*visit.ended; });
    over.assign(live, open_.end());
    open_.erase(live, open_.end());
    open_.push_back(made);
  }
  const std::weak_ptr<Connection> weak = made.connection;
  made.connection->start({.received =
                              [this](const Message& message) {
                                if (events_.answered) events_.answered(message);
                              },
                          .ended =
                              [this, weak, ended = made.ended](const Status& why) {
                                const auto connection = weak.lock();
                                if (connection && events_.ended) events_.ended(connection, why);
                                *ended = true;
                              }});
  made.connection->send(said);
  return made.connection;
}

}  // namespace cohort::internal
