#include "cluster/server_status.h"

#include "transport/message_codec.h"

namespace cohort::internal {

void list_fields(auto& fields, MaybeConst<ServerStatus::Session> auto& session) {
  fields(session.id, session.client, session.steps);
}
void list_fields(auto& fields, MaybeConst<ServerStatus::Peer> auto& peer) {
  fields(peer.name, peer.transport, peer.messages_sent, peer.messages_received, peer.bytes_sent,
         peer.bytes_received);
}
void list_fields(auto& fields, MaybeConst<ServerStatus> auto& status) {
  fields(status.task, status.devices, status.sessions, status.worker_sessions, status.plans,
         status.running_steps, status.peers);
}

std::string encode_server_status(const ServerStatus& status) {
  Message message;
  MessageWriter{message}(status);
  return message.header;
}

ServerStatus decode_server_status(std::string_view bytes) {
  const Message message{.header = std::string(bytes)};
  MessageReader reader(message, "the status of a server");
  return decode_rest<ServerStatus>(reader);
}

}  // namespace cohort::internal
