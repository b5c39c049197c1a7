#include "rpc/memory_offer.h"

namespace cohort::internal {
namespace {

constexpr std::chrono::seconds kTimeToCome{10};

}  // namespace

void MemoryOffer::add_to(Handshake& answer, const Handshake& from) {
  if (!from.shares_memory || from.peer.host != answer.peer.host) return;
  answer.memory_socket = listener_.name();
  answer.memory_nonce = listener_.expect(
      self_, from.peer, std::chrono::steady_clock::now() + kTimeToCome,
      [this](std::shared_ptr<Connection> connection) { accept_(std::move(connection)); });
}

std::shared_ptr<Connection> take_up_offer(const Handshake& from, const Peer& self,
                                          Deadline deadline) {
  if (from.memory_socket.empty()) return nullptr;
  return connect_shared_memory(from.memory_socket, from.memory_nonce, self, from.peer, deadline);
}

}  // namespace cohort::internal
