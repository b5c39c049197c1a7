#include "cluster/protocol_fields.h"

namespace cohort::internal {
namespace {

void write_options(const SessionOptions& options, MessageWriter& writer) {
  writer.number(options.log_device_placement ? 1 : 0).number(options.allow_soft_placement ? 1 : 0);
  writer.number(options.isolate_session_state ? 1 : 0);
  write_limit(options.timeout, writer);
  write_texts(options.device_filters, writer);
}
SessionOptions read_options(MessageReader& reader) {
  SessionOptions options;
  options.log_device_placement = read_flag(reader);
  options.allow_soft_placement = read_flag(reader);
  options.isolate_session_state = read_flag(reader);
  options.timeout = read_limit(reader);
  options.device_filters = read_texts(reader);
  return options;
}

}  // namespace

Message write_request(MessageKind kind, uint64_t number) {
  Draft draft(kind, number);
  return std::move(draft.message);
}

Message write_request(uint64_t number, const OpenSession& from) {
  Draft draft(MessageKind::OpenSession, number);
  write_options(from.options, draft.writer);
  draft.writer.text(from.client).payload(from.graph);
  return std::move(draft.message);
}

Message write_request(uint64_t number, const ExtendSession& from) {
  Draft draft(MessageKind::ExtendSession, number);
  draft.writer.number(from.session).number(from.version).payload(from.graph);
  return std::move(draft.message);
}

Message write_request(uint64_t number, const PrepareRun& from) {
  Draft draft(MessageKind::PrepareRun, number);
  draft.writer.number(from.session);
  write_texts(from.feeds, draft.writer);
  write_texts(from.fetches, draft.writer);
  write_limit(from.limit, draft.writer);
  return std::move(draft.message);
}

Message write_request(MessageKind kind, uint64_t number, uint64_t session) {
  Draft draft(kind, number);
  draft.writer.number(session);
  return std::move(draft.message);
}

Message write_request(MessageKind kind, uint64_t number, const std::vector<std::string>& texts) {
  Draft draft(kind, number);
  write_texts(texts, draft.writer);
  return std::move(draft.message);
}

uint64_t request_of(const Message& message) { return open_message(message).number(); }

OpenSession read_open_session(const Message& message) {
  MessageReader reader = open_request(message);
  OpenSession read;
  read.options = read_options(reader);
  read.client = reader.text();
  read.graph = reader.payload();
  reader.expect_end();
  return read;
}

ExtendSession read_extend_session(const Message& message) {
  MessageReader reader = open_request(message);
  ExtendSession read;
  read.session = reader.number();
  read.version = reader.number();
  read.graph = reader.payload();
  reader.expect_end();
  return read;
}

PrepareRun read_prepare_run(const Message& message) {
  MessageReader reader = open_request(message);
  PrepareRun read;
  read.session = reader.number();
  read.feeds = read_texts(reader);
  read.fetches = read_texts(reader);
  read.limit = read_limit(reader);
  reader.expect_end();
  return read;
}

uint64_t read_session_request(const Message& message) {
  MessageReader reader = open_request(message);
  const uint64_t session = reader.number();
  reader.expect_end();
  return session;
}

std::vector<std::string> read_texts_request(const Message& message) {
  MessageReader reader = open_request(message);
  std::vector<std::string> texts = read_texts(reader);
  reader.expect_end();
  return texts;
}

}  // namespace cohort::internal
