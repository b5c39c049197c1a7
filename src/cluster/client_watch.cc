#include "cluster/client_watch.h"

#include <fmt/format.h>

#include "base/log.h"

namespace cohort::internal {
namespace {

// The watch counts looks, not time, so that a pause of this process is not blamed on a client.
constexpr int kLooksPerLimit = 8;

Status silent_client(const Peer& client, std::chrono::milliseconds limit) {
  return {.code = Code::Unavailable,
          .message = fmt::format(
              "[Server] {} was silent for {:.1f} s and was given up with its sessions: it was "
              "frozen, or could not be reached. Open a new session; "
              "ServerOptions::silence_limit says how long a client may be silent",
              client.name, std::chrono::duration<double>(limit).count())};
}

}  // namespace

void ClientWatch::look_later(const std::weak_ptr<Link>& client, uint64_t received, int silent) {
  timers_.at(std::chrono::steady_clock::now() + limit_ / kLooksPerLimit, [=, this] {
    const Link::Pointer alive = client.lock();
    if (alive && !alive->ended()) look(alive, received, silent);
  });
}

void ClientWatch::look(const Link::Pointer& client, uint64_t received, int silent) {
  const uint64_t now = client->connection()->traffic().messages_received;
  silent = now == received ? silent + 1 : 0;
  if (silent > kLooksPerLimit) {
    const Status why = silent_client(client->peer(), limit_);
    log_warning("{}", why.message);
    client->close(why);
    return;
  }
  if (silent > 0) client->post(encode(Ping{now}));
  look_later(client, now, silent);
}

}  // namespace cohort::internal
