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

// What the parties of a cluster say to each other. A client speaks to the server it opened a
// session on, the session's master; a master to the tasks that take part in its runs, the workers;
// workers to each other.
//
// A message begins with its kind. Requests are answered: their number follows, and the answer
// repeats it. Reading trusts nothing: what is not what it should be throws DataLoss.
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
  // Everything below is not answered.
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
  ReleaseRun,   // client to master: a run that was prepared is not needed any more
  ReleasePlan,  // master to worker: the same of the plan
};
inline constexpr auto kLastMessageKind = MessageKind::ReleasePlan;

// The first field of every message. Throws DataLoss for what is none.
MessageKind kind_of(const Message& message);

// --- Sessions

struct OpenSession {
  SessionOptions options = {};
  std::string client = {};  // who asks, for status and messages
  Buffer graph = {};
};
struct SessionOpened {
  uint64_t session = 0;
  uint64_t version = 0;  // of the graph; grows by one with each extension
};
struct ExtendSession {
  uint64_t session = 0;
  uint64_t version = 0;  // that the extension is for
  Buffer graph = {};
};
struct PrepareRun {
  uint64_t session = 0;
  std::vector<std::string> feeds = {};  // tensors' names
  std::vector<std::string> fetches = {};
  std::vector<std::string> over = {};  // nodes that have run, see RunRequest
  std::chrono::milliseconds limit{0};
};
struct RunPrepared {
  uint64_t run = 0;
  std::vector<std::string> placement_lines =
      {};  // of nodes placed for it, when they were asked for
};

// --- Plans

struct PlanPart {
  struct Place {
    uint64_t position;  // among the feeds or fetches of the task
    uint64_t node;      // in the part's graph
    uint64_t output;
  };
  std::string device = {};  // within the task: "CPU:0"
  Buffer graph = {};
  std::vector<Place> feeds = {};
  std::vector<Place> fetches = {};
  std::vector<uint64_t> targets = {};
};
// What one task does in the runs of one signature.
struct RegisterPlan {
  struct PeerTask {
    std::string name;
    uint64_t incarnation;
    std::string address = {};  // empty: the receiver's cluster has it
  };
  struct SentEdge {
    uint64_t edge;
    uint64_t peer;  // place in `peers`
  };
  uint64_t session = 0;
  bool isolated = false;  // the session has state of its own
  std::string task = {};  // what the session calls the receiver; empty: as that was started
  uint64_t plan = 0;
  uint64_t num_edges = 0;  // of the whole signature: edges are below this
  uint64_t num_feeds = 0;
  uint64_t num_fetches = 0;
  bool ordered = false;  // several parts exchange tensors, see StepOrder::AsMade
  std::vector<PeerTask> peers = {};
  std::vector<SentEdge> sends = {};       // what leaves the task; other edges stay inside or arrive
  std::vector<std::string> sources = {};  // tasks that tensors come from
  std::vector<PlanPart> parts = {};
  std::chrono::milliseconds limit{0};
};

// --- Steps

struct RunStep {
  uint64_t session = 0;
  uint64_t call = 0;  // the client's number for it
  uint64_t run = 0;
  std::chrono::milliseconds limit{0};  // 0 = the session's
  bool trace = false;
  std::vector<Tensor> feeds = {};
  std::shared_ptr<const void> charge = {};  // does not travel: see PeerQuotas
};
struct StepDone {
  uint64_t call = 0;
  Status status = {};
  std::vector<Tensor> fetches = {};
  std::vector<NodeTiming> timings = {};
};
struct CancelStep {
  uint64_t session = 0;
  uint64_t call = 0;
};
struct RunPlan {
  uint64_t session = 0;
  uint64_t plan = 0;
  uint64_t step = 0;
  uint64_t number = 0;  // of the run among those that draw, see RunNumber
  bool trace = false;
  std::vector<Tensor> feeds = {};
  std::shared_ptr<const void> charge = {};  // as RunStep's
};
struct StepTensors {
  uint64_t session = 0;
  uint64_t plan = 0;
  uint64_t step = 0;
  std::vector<uint64_t> edges = {};
  std::vector<Tensor> tensors = {};         // one for each edge
  std::shared_ptr<const void> charge = {};  // as RunStep's
};
struct PlanDone {
  uint64_t session = 0;
  uint64_t step = 0;
  Status status = {};
  std::vector<Tensor> fetches = {};
  std::vector<NodeTiming> timings = {};
  StepTensors last_tensors = {};  // for the worker that is the master's own task
};
struct AbortPlan {
  uint64_t session = 0;
  uint64_t plan = 0;
  uint64_t step = 0;
  Status status = {};
};
// ReleaseRun, ReleasePlan.
struct Release {
  uint64_t session = 0;
  uint64_t plan = 0;  // or the run, which has the same number
};
// --- To messages and back. A request without fields of its own is written by write_request.

Message write_request(MessageKind kind, uint64_t request);
Message write_request(uint64_t request, const OpenSession& from);
Message write_request(uint64_t request, const ExtendSession& from);
Message write_request(uint64_t request, const PrepareRun& from);
Message write_request(uint64_t request, const RegisterPlan& from);
// CloseSession, CloseWorkerSession.
Message write_request(MessageKind kind, uint64_t request, uint64_t session);
// ResetContainers, ClearContainers.
Message write_request(MessageKind kind, uint64_t request, const std::vector<std::string>& texts);

// The number of a request, or of the one that an answer is for.
uint64_t request_of(const Message& message);
OpenSession read_open_session(const Message& message);
ExtendSession read_extend_session(const Message& message);
PrepareRun read_prepare_run(const Message& message);
RegisterPlan read_register_plan(const Message& message);
uint64_t read_session_request(const Message& message);
std::vector<std::string> read_texts_request(const Message& message);

// `sender`: the task whose name the status gets when it has no origin.
Message write(const RunStep& from);
Message write(const StepDone& from, std::string_view sender);
Message write(const CancelStep& from);
Message write(const RunPlan& from);
Message write(const PlanDone& from, std::string_view sender);
Message write(const AbortPlan& from, std::string_view sender);
Message write(const StepTensors& from);
Message write(MessageKind kind, const Release& from);
Message write_notice(std::string_view text);
Message write_ping(MessageKind kind, uint64_t number);

RunStep read_run_step(const Message& message);
StepDone read_step_done(const Message& message);
CancelStep read_cancel_step(const Message& message);
RunPlan read_run_plan(const Message& message);
PlanDone read_plan_done(const Message& message);
AbortPlan read_abort_plan(const Message& message);
StepTensors read_step_tensors(const Message& message);
Release read_release(const Message& message);
std::string read_notice(const Message& message);
uint64_t read_ping(const Message& message);

// --- Answers: a status, and behind a good one what was asked for.

struct Answer {
  uint64_t request = 0;
  Status status = {};
  std::vector<uint64_t> numbers = {};
  std::vector<std::string> texts = {};
};
Message write(const Answer& from, std::string_view sender);
Answer read_answer(const Message& message);

}  // namespace cohort::internal
