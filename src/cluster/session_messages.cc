#include <limits>

#include "cluster/protocol_fields.h"

namespace cohort::internal {
namespace {

void write_cluster(const std::optional<ClusterSpec>& cluster, MessageWriter& writer) {
  writer.number(cluster ? 1 : 0);
  if (!cluster) return;
  const ClusterDef def = cluster->as_cluster_def();
  writer.number(def.jobs.size());
  for (const ClusterDef::Job& job : def.jobs) {
    writer.text(job.name).number(job.tasks.size());
    for (const ClusterDef::Task& task : job.tasks) {
      writer.number(static_cast<uint64_t>(task.index)).text(task.address);
    }
  }
}
std::optional<ClusterSpec> read_cluster(MessageReader& reader) {
  if (!read_flag(reader)) return std::nullopt;
  ClusterDef def;
  def.jobs.resize(reader.count());
  for (ClusterDef::Job& job : def.jobs) {
    job.name = reader.text();
    job.tasks.resize(reader.count());
    for (ClusterDef::Task& task : job.tasks) {
      task.index = static_cast<int>(reader.number(std::numeric_limits<int>::max()));
      task.address = reader.text();
    }
  }
  std::optional<ClusterSpec> cluster;
  const Status status = capture_status([&] { cluster = ClusterSpec(def); });
  if (!status.ok()) reader.fail(status.message);
  return cluster;
}

void write_options(const SessionOptions& options, MessageWriter& writer) {
  writer.number(options.log_device_placement ? 1 : 0).number(options.allow_soft_placement ? 1 : 0);
  writer.number(options.isolate_session_state ? 1 : 0);
  writer.number(options.enable_bfloat16_sendrecv ? 1 : 0);
  write_limit(options.timeout, writer);
  write_texts(options.device_filters, writer);
  write_cluster(options.cluster, writer);
  writer.number(options.share_cluster_state ? 1 : 0);
}
SessionOptions read_options(MessageReader& reader) {
  SessionOptions options;
  options.log_device_placement = read_flag(reader);
  options.allow_soft_placement = read_flag(reader);
  options.isolate_session_state = read_flag(reader);
  options.enable_bfloat16_sendrecv = read_flag(reader);
  options.timeout = read_limit(reader);
  options.device_filters = read_texts(reader);
  options.cluster = read_cluster(reader);
  options.share_cluster_state = read_flag(reader);
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
  write_texts(from.over, draft.writer);
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
  read.over = read_texts(reader);
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
