#include "cluster/server_status.h"

#include "transport/two_way_fields.h"

namespace cohort::internal {
namespace {

void list_fields(auto& fields, EitherWay<ServerStatus::Session> auto& session) {
  fields.number(session.id);
  fields.text(session.client);
  fields.number(session.steps);
}

void list_fields(auto& fields, EitherWay<ServerStatus::Peer> auto& peer) {
  fields.text(peer.name);
  fields.text(peer.transport);
  fields.number(peer.messages_sent);
  fields.number(peer.messages_received);
  fields.number(peer.bytes_sent);
  fields.number(peer.bytes_received);
}

void list_fields(auto& fields, EitherWay<ServerStatus> auto& status) {
  fields.text(status.task);
  fields.texts(status.devices);
  fields.values(status.sessions, [&](auto& session) { list_fields(fields, session); });
  fields.number(status.worker_sessions);
  fields.number(status.plans);
  fields.number(status.running_steps);
  fields.values(status.peers, [&](auto& peer) { list_fields(fields, peer); });
}

}  // namespace

std::string write_server_status(const ServerStatus& status) {
  Message message;
  FieldsOut fields(message);
  list_fields(fields, status);
  return message.header;
}

ServerStatus read_server_status(std::string_view bytes) {
  const Message message{.header = std::string(bytes)};
  MessageReader reader(message, "the status of a server");
  ServerStatus status;
  FieldsIn fields(reader);
  list_fields(fields, status);
  reader.expect_end();
  return status;
}

}  // namespace cohort::internal
