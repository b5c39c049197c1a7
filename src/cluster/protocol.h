#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/error.h"
#include "cohort/session.h"
#include "transport/message.h"
#include "transport/message_codec.h"

// The messages between the processes of a cluster. A client talks to the server on which it opened
// a session, the session's master; a master talks to the workers, which are the tasks that take
// part in its runs; workers talk to each other.
//
// A message begins with its kind. In a request the number of the request follows, and the answer
// repeats that number. Decoding trusts nothing: it throws DataLoss for bytes that are not the
// expected message.
namespace cohort::internal {

enum class MessageKind : uint8_t {
  Answer = 1,
  // Requests of a client.
  OpenSession,
  ExtendSession,
  PrepareRun,
  CloseSession,
  ListDevices,
  ResetContainers,
  GetStatus,
  Shutdown,
  // Requests of a master.
  GetDevices,
  RegisterPlan,
  CloseWorkerSession,
  ClearContainers,
  // The kinds below are not answered.
  RunStep,      // client to master
  StepDone,     // master to client, one for each RunStep
  CancelStep,   // client to master
  RunPlan,      // master to worker
  PlanDone,     // worker to master, one for each RunPlan
  AbortPlan,    // master to worker
  StepTensors,  // worker to worker
  Notice,       // master to client
  Ping,
  Pong,
  ReleaseRun,   // client to master: a prepared run is not needed any more
  ReleasePlan,  // master to worker: a registered plan is not needed any more
};
inline constexpr auto kLastMessageKind = MessageKind::ReleasePlan;

// The first field of every message. Throws DataLoss if it is not a kind.
MessageKind kind_of(const Message& message);
// The number of a request.
uint64_t request_of(const Message& message);
// An encoded request with its number, which the link assigns when it sends the request.
Message numbered(Message request, uint64_t number);

// A reader of the fields after the kind and, in a request, the number. Throws DataLoss if the
// message is of another kind.
MessageReader open_message(const Message& message, MessageKind kind);

template <typename T>
T decode(const Message& message) {
  MessageReader reader = open_message(message, T::kKind);
  return decode_rest<T>(reader);
}

// Serialized graphs in messages.
inline Buffer buffer_of(std::string bytes) {
  const auto owner = std::make_shared<const std::string>(std::move(bytes));
  return {.bytes = std::as_bytes(std::span(owner->data(), owner->size())), .owner = owner};
}

inline std::string_view text_of(const Buffer& buffer) {
  return {reinterpret_cast<const char*>(buffer.bytes.data()), buffer.bytes.size()};
}

// --- Sessions

struct OpenSession {
  static constexpr auto kKind = MessageKind::OpenSession;
  SessionOptions options = {};
  std::string client = {};  // the client's name, for status and error messages
  Buffer graph = {};
  static void list_fields(auto& fields, auto& m) { fields(m.options, m.client, m.graph); }
};
struct ExtendSession {
  static constexpr auto kKind = MessageKind::ExtendSession;
  uint64_t session = 0;
  uint64_t version = 0;  // of the graph that is extended; each extension adds one
  Buffer graph = {};
  static void list_fields(auto& fields, auto& m) { fields(m.session, m.version, m.graph); }
};
struct PrepareRun {
  static constexpr auto kKind = MessageKind::PrepareRun;
  uint64_t session = 0;
  std::vector<std::string> feeds = {};  // names of tensors
  std::vector<std::string> fetches = {};
  std::vector<std::string> over = {};  // nodes that have run, see RunRequest
  std::chrono::milliseconds limit{0};
  static void list_fields(auto& fields, auto& m) {
    fields(m.session, m.feeds, m.fetches, m.over, m.limit);
  }
};

template <MessageKind kind>
struct SessionRequest {
  static constexpr auto kKind = kind;
  uint64_t session = 0;
  static void list_fields(auto& fields, auto& m) { fields(m.session); }
};
using CloseSession = SessionRequest<MessageKind::CloseSession>;
using CloseWorkerSession = SessionRequest<MessageKind::CloseWorkerSession>;
using ListDevices = SessionRequest<MessageKind::ListDevices>;

// About one run, plan or step of a session.
template <MessageKind kind>
struct ItemMessage {
  static constexpr auto kKind = kind;
  uint64_t session = 0;
  uint64_t item = 0;  // its number
  static void list_fields(auto& fields, auto& m) { fields(m.session, m.item); }
};
using CancelStep = ItemMessage<MessageKind::CancelStep>;  // the client's number, see RunStep
using ReleaseRun = ItemMessage<MessageKind::ReleaseRun>;
using ReleasePlan = ItemMessage<MessageKind::ReleasePlan>;

// --- Servers

struct ResetContainers {
  static constexpr auto kKind = MessageKind::ResetContainers;
  std::vector<std::string> containers = {};
  static void list_fields(auto& fields, auto& m) { fields(m.containers); }
};

struct ClearContainers {
  static constexpr auto kKind = MessageKind::ClearContainers;
  std::vector<std::string> containers = {};
  // The number of the chief that they belong to; later ones have larger numbers. 0: any chief.
  int64_t chief = 0;
  static void list_fields(auto& fields, auto& m) { fields(m.containers, m.chief); }
};

template <MessageKind kind>
struct EmptyRequest {
  static constexpr auto kKind = kind;
  static void list_fields(auto& /*fields*/, auto& /*m*/) {}
};
using GetStatus = EmptyRequest<MessageKind::GetStatus>;
using GetDevices = EmptyRequest<MessageKind::GetDevices>;
using Shutdown = EmptyRequest<MessageKind::Shutdown>;

// --- Plans

struct PlanPart {
  struct Place {
    uint64_t position;  // among the feeds or fetches of the task
    uint64_t node;      // in the part's graph
    uint64_t output;
    static void list_fields(auto& fields, auto& m) { fields(m.position, m.node, m.output); }
  };
  std::string device = {};  // within the task: "CPU:0"
  Buffer graph = {};
  std::vector<Place> feeds = {};
  std::vector<Place> fetches = {};
  std::vector<uint64_t> targets = {};
  static void list_fields(auto& fields, auto& m) {
    fields(m.device, m.graph, m.feeds, m.fetches, m.targets);
  }
};
// What one task does in the runs of one signature.
struct RegisterPlan {
  static constexpr auto kKind = MessageKind::RegisterPlan;
  struct PeerTask {
    std::string name;
    uint64_t incarnation;
    std::string address = {};  // empty: the receiver's cluster has it
    static void list_fields(auto& fields, auto& m) { fields(m.name, m.incarnation, m.address); }
  };
  struct SentEdge {
    uint64_t edge;
    uint64_t peer;  // place in `peers`
    static void list_fields(auto& fields, auto& m) { fields(m.edge, m.peer); }
  };
  uint64_t session = 0;
  bool isolated = false;  // the session has state of its own
  std::string task = {};  // the receiver's name in the session; empty: the name of its server
  uint64_t plan = 0;
  uint64_t num_edges = 0;  // of the whole signature: edges are below this number
  uint64_t num_feeds = 0;
  uint64_t num_fetches = 0;
  bool ordered = false;  // several parts exchange tensors, see StepOrder::AsMade
  std::vector<PeerTask> peers = {};
  std::vector<SentEdge> sends = {};       // edges to other tasks; all others stay or arrive
  std::vector<std::string> sources = {};  // tasks from which tensors come
  std::vector<PlanPart> parts = {};
  std::chrono::milliseconds limit{0};
  static void list_fields(auto& fields, auto& m) {
    fields(m.session, m.isolated, m.task, m.plan, m.num_edges, m.num_feeds, m.num_fetches,
           m.ordered, m.peers, m.sends, m.sources, m.parts, m.limit);
  }
};

// --- Steps

struct RunStep {
  static constexpr auto kKind = MessageKind::RunStep;
  uint64_t session = 0;
  uint64_t call = 0;  // the client's number for the step
  uint64_t run = 0;
  std::chrono::milliseconds limit{0};  // 0: the session's limit
  bool trace = false;
  std::optional<uint64_t> number = std::nullopt;  // see RunNumber; empty: the session counts
  std::vector<Tensor> feeds = {};
  std::shared_ptr<const void> charge = {};  // set by the receiver, see PeerQuotas
  static void list_fields(auto& fields, auto& m) {
    fields(m.session, m.call, m.run, m.limit, m.trace, m.number, m.feeds);
  }
};
struct StepDone {
  static constexpr auto kKind = MessageKind::StepDone;
  uint64_t call = 0;
  Status status = {};
  std::vector<Tensor> fetches = {};
  std::vector<NodeTiming> timings = {};
  static void list_fields(auto& fields, auto& m) { fields(m.call, m.status, m.fetches, m.timings); }
};
struct RunPlan {
  static constexpr auto kKind = MessageKind::RunPlan;
  uint64_t session = 0;
  uint64_t plan = 0;
  uint64_t step = 0;
  uint64_t number = 0;  // of the run among the runs that draw random numbers, see RunNumber
  bool trace = false;
  std::vector<Tensor> feeds = {};
  std::shared_ptr<const void> charge = {};  // set by the receiver, see PeerQuotas
  static void list_fields(auto& fields, auto& m) {
    fields(m.session, m.plan, m.step, m.number, m.trace, m.feeds);
  }
};
struct StepTensors {
  static constexpr auto kKind = MessageKind::StepTensors;
  uint64_t session = 0;
  uint64_t plan = 0;
  uint64_t step = 0;
  std::vector<uint64_t> edges = {};
  std::vector<Tensor> tensors = {};         // one for each edge
  std::shared_ptr<const void> charge = {};  // set by the receiver, see PeerQuotas
  static void list_fields(auto& fields, auto& m) {
    fields(m.session, m.plan, m.step, m.edges, m.tensors);
    fields.check(m.edges.size() == m.tensors.size(), "edges and tensors differ in number");
  }
};
struct PlanDone {
  static constexpr auto kKind = MessageKind::PlanDone;
  uint64_t session = 0;
  uint64_t step = 0;
  Status status = {};
  std::vector<Tensor> fetches = {};
  std::vector<NodeTiming> timings = {};
  StepTensors last_tensors = {};  // for the worker that is the master's own task
  static void list_fields(auto& fields, auto& m) {
    fields(m.session, m.step, m.status, m.fetches, m.timings, m.last_tensors);
  }
};
struct AbortPlan {
  static constexpr auto kKind = MessageKind::AbortPlan;
  uint64_t session = 0;
  uint64_t plan = 0;
  uint64_t step = 0;
  Status status = {};
  static void list_fields(auto& fields, auto& m) { fields(m.session, m.plan, m.step, m.status); }
};

// --- Connections

// A status and, if it is OK, the numbers and texts that the request asked for.
struct Answer {
  static constexpr auto kKind = MessageKind::Answer;
  uint64_t request = 0;
  Status status = {};
  std::vector<uint64_t> numbers = {};
  std::vector<std::string> texts = {};
  static void list_fields(auto& fields, auto& m) {
    fields(m.request, m.status, m.numbers, m.texts);
  }
};
// A text that the client logs.
struct Notice {
  static constexpr auto kKind = MessageKind::Notice;
  std::string text = {};
  static void list_fields(auto& fields, auto& m) { fields(m.text); }
};
// A ping is answered by a pong with the same number.
template <MessageKind kind>
struct NumberMessage {
  static constexpr auto kKind = kind;
  uint64_t number = 0;
  static void list_fields(auto& fields, auto& m) { fields(m.number); }
};
using Ping = NumberMessage<MessageKind::Ping>;
using Pong = NumberMessage<MessageKind::Pong>;

// --- Public types inside messages

void list_fields(auto& fields, MaybeConst<ClusterDef::Task> auto& task) {
  fields(task.index, task.address);
}
void list_fields(auto& fields, MaybeConst<ClusterDef::Job> auto& job) {
  fields(job.name, job.tasks);
}
template <MaybeConst<ClusterSpec> T>
void list_fields(auto& fields, T& cluster) {
  ClusterDef def = cluster.as_cluster_def();
  fields(def.jobs);
  if constexpr (!std::is_const_v<T>) {
    const Status status = capture_status([&] { cluster = ClusterSpec(def); });
    fields.check(status.ok(), status.message);
  }
}
void list_fields(auto& fields, MaybeConst<SessionOptions> auto& o) {
  fields(o.log_device_placement, o.allow_soft_placement, o.isolate_session_state,
         o.enable_bfloat16_sendrecv, o.timeout, o.device_filters, o.cluster, o.share_cluster_state);
}
void list_fields(auto& fields, MaybeConst<NodeTiming> auto& t) {
  fields(t.node, t.op, t.device, t.start, t.duration, t.output_bytes);
}

}  // namespace cohort::internal
