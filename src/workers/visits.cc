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

template <typename Handle>
void Visits::Handlers::run(const Handle& handle) {
  {
    const std::lock_guard lock(mutex);
    if (over) return;
    ++running;
  }
  const auto end = [this](void*) {
    const std::lock_guard lock(mutex);
    --running;
    changed.notify_all();
  };
  const std::unique_ptr<void, decltype(end)> ends(this, end);  // also when `handle` throws
  handle();
}

void Visits::Handlers::stop() {
  std::unique_lock lock(mutex);
  over = true;
  changed.wait(lock, [this] { return running == 0; });
}

Visits::~Visits() {
  party_->stop();
  handlers_->stop();
}

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
  made.connection->start(
      {.received =
           [this, handlers = handlers_](const Message& message) {
             handlers->run([&] {
               if (events_.answered) events_.answered(message);
             });
           },
       .ended =
           [this, handlers = handlers_, weak, ended = made.ended](const Status& why) {
             const auto connection = weak.lock();
             handlers->run([&] {
               if (connection && events_.ended) events_.ended(connection, why);
             });
             *ended = true;
           }});
  made.connection->send(said);
  return made.connection;
}

}  // namespace cohort::internal
