#include "cluster/server_status.h"

#include "transport/message_fields.h"

namespace cohort::internal {

std::string write_server_status(const ServerStatus& status) {
  Message message;
  MessageWriter writer(message);
  writer.text(status.task).number(status.devices.size());
  for (const std::string& device : status.devices) writer.text(device);
  writer.number(status.sessions.size());
  for (const ServerStatus::Session& session : status.sessions) {
    writer.number(session.id).text(session.client).number(session.steps);
  }
  writer.number(status.worker_sessions).number(status.plans).number(status.running_steps);
  writer.number(status.peers.size());
  for (const ServerStatus::Peer& peer : status.peers) {
    writer.text(peer.name).text(peer.transport);
    writer.number(peer.messages_sent).number(peer.messages_received);
    writer.number(peer.bytes_sent).number(peer.bytes_received);
  }
  return message.header;
}

ServerStatus read_server_status(std::string_view bytes) {
  const Message message{.header = std::string(bytes)};
  MessageReader reader(message, "the status of a server");
  ServerStatus status;
  status.task = reader.text();
  status.devices.resize(reader.count());
  for (std::string& device : status.devices) device = reader.text();
  status.sessions.resize(reader.count());
  for (ServerStatus::Session& session : status.sessions) {
    session.id = reader.number();
    session.client = reader.text();
    session.steps = reader.number();
  }
  status.worker_sessions = reader.number();
  status.plans = reader.number();
  status.running_steps = reader.number();
  status.peers.resize(reader.count());
  for (ServerStatus::Peer& peer : status.peers) {
    peer.name = reader.text();
    peer.transport = reader.text();
    peer.messages_sent = reader.number();
    peer.messages_received = reader.number();
    peer.bytes_sent = reader.number();
    peer.bytes_received = reader.number();
  }
  reader.expect_end();
  return status;
}

}  // namespace cohort::internal
