#include "cluster/party.h"

#include <fmt/format.h>
#include <unistd.h>

#include <random>

#include "transport/in_process.h"

namespace cohort::internal {

uint64_t new_incarnation() {
  std::random_device random;
  return (uint64_t{random()} << 32) | random();
}

std::unique_ptr<Party> make_task_party(Peer self, Party::Accept accept) {
  return make_in_process_party(network_of_process(), std::move(self), std::move(accept));
}

std::unique_ptr<Party> make_client_party() {
  return make_in_process_party(network_of_process(), {.name = fmt::format("client {}", getpid()),
                                                      .incarnation = new_incarnation()});
}

}  // namespace cohort::internal
