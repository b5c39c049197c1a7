#include "cluster/protocol_fields.h"

namespace cohort::internal {
namespace {

void write_places(const std::vector<PlanPart::Place>& places, MessageWriter& writer) {
  writer.number(places.size());
  for (const PlanPart::Place& place : places) {
    writer.number(place.position).number(place.node).number(place.output);
  }
}
std::vector<PlanPart::Place> read_places(MessageReader& reader) {
  std::vector<PlanPart::Place> places(reader.count());
  for (PlanPart::Place& place : places) {
    place.position = reader.number();
    place.node = reader.number();
    place.output = reader.number();
  }
  return places;
}

void write_part(const PlanPart& part, MessageWriter& writer) {
  writer.text(part.device).payload(part.graph);
  write_places(part.feeds, writer);
  write_places(part.fetches, writer);
  write_numbers(part.targets, writer);
}
PlanPart read_part(MessageReader& reader) {
  PlanPart part;
  part.device = reader.text();
  part.graph = reader.payload();
  part.feeds = read_places(reader);
  part.fetches = read_places(reader);
  part.targets = read_numbers(reader);
  return part;
}

}  // namespace

Message write_request(uint64_t number, const RegisterPlan& from) {
  Draft draft(MessageKind::RegisterPlan, number);
  MessageWriter& writer = draft.writer;
  writer.number(from.session).number(from.isolated ? 1 : 0).text(from.task).number(from.plan);
  writer.number(from.num_edges).number(from.num_feeds).number(from.num_fetches);
  writer.number(from.ordered ? 1 : 0);
  writer.number(from.peers.size());
  for (const auto& peer : from.peers) {
    writer.text(peer.name).number(peer.incarnation).text(peer.address);
  }
  writer.number(from.sends.size());
  for (const auto& sent : from.sends) writer.number(sent.edge).number(sent.peer);
  write_texts(from.sources, writer);
  writer.number(from.parts.size());
  for (const PlanPart& part : from.parts) write_part(part, writer);
  write_limit(from.limit, writer);
  return std::move(draft.message);
}

RegisterPlan read_register_plan(const Message& message) {
  MessageReader reader = open_request(message);
  RegisterPlan read;
  read.session = reader.number();
  read.isolated = read_flag(reader);
  read.task = reader.text();
  read.plan = reader.number();
  read.num_edges = reader.number();
  read.num_feeds = reader.number();
  read.num_fetches = reader.number();
  read.ordered = read_flag(reader);
  read.peers.resize(reader.count());
  for (auto& peer : read.peers) {
    peer.name = reader.text();
    peer.incarnation = reader.number();
    peer.address = reader.text();
  }
  read.sends.resize(reader.count());
  for (auto& sent : read.sends) {
    sent.edge = reader.number();
    sent.peer = reader.number();
  }
  read.sources = read_texts(reader);
  const size_t parts = reader.count();
  for (size_t i = 0; i < parts; ++i) read.parts.push_back(read_part(reader));
  read.limit = read_limit(reader);
  reader.expect_end();
  return read;
}

}  // namespace cohort::internal
