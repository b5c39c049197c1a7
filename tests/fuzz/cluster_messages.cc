// Reads bytes as a message between the processes of a cluster. Bytes that are not a message must
// raise DataLoss; a plan that can be read must compile or raise InvalidArgument.
//
// Input: the length of the header (2 bytes, little-endian), the header, then one payload.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "cluster/protocol.h"
#include "cluster/server_status.h"
#include "cluster/worker_step.h"
#include "cohort/error.h"
#include "transport/direct_connection.h"

namespace {

using namespace cohort::internal;
using cohort::Code;

void require(bool holds) {
  if (!holds) std::abort();
}

Message message_of(const uint8_t* data, size_t size) {
  Message message;
  const size_t length = std::min<size_t>(size - 2, data[0] | data[1] << 8);
  message.header.assign(reinterpret_cast<const char*>(data) + 2, length);
  const auto rest = std::make_shared<const std::string>(
      reinterpret_cast<const char*>(data) + 2 + length, size - 2 - length);
  if (!rest->empty()) {
    message.payloads.push_back(
        {.bytes = std::as_bytes(std::span(rest->data(), rest->size())), .owner = rest});
  }
  return message;
}

// Somebody to send tensors to.
const Link::Pointer& somebody() {
  static const Link::Pointer link = Link::start(
      connect_directly({.name = "/job:ps/replica:0/task:0"}, {.name = "somebody"}).first,
      "/job:ps/replica:0/task:0",
      {.received = [](const Link::Pointer&, const Message&) {},
       .ended = [](const Link::Pointer&, const cohort::Status&) {}});
  return link;
}

void compile(const RegisterPlan& plan) {
  const cohort::Status status = cohort::capture_status([&] {
    (void)make_worker_plan(plan, std::make_shared<DeviceState>(),
                           std::vector<Link::Pointer>(plan.peers.size(), somebody()),
                           "/job:ps/replica:0/task:0", "master");
  });
  require(status.ok() || status.code == Code::InvalidArgument ||
          status.code == Code::Unimplemented || status.code == Code::FailedPrecondition);
}

void read(const Message& message) {
  switch (kind_of(message)) {
    case MessageKind::Answer:
      (void)decode<Answer>(message);
      return;
    case MessageKind::OpenSession:
      (void)decode<OpenSession>(message);
      return;
    case MessageKind::ExtendSession:
      (void)decode<ExtendSession>(message);
      return;
    case MessageKind::PrepareRun:
      (void)decode<PrepareRun>(message);
      return;
    case MessageKind::CloseSession:
      (void)decode<CloseSession>(message);
      return;
    case MessageKind::ListDevices:
      (void)decode<ListDevices>(message);
      return;
    case MessageKind::CloseWorkerSession:
      (void)decode<CloseWorkerSession>(message);
      return;
    case MessageKind::ResetContainers:
      (void)decode<ResetContainers>(message);
      return;
    case MessageKind::ClearContainers:
      (void)decode<ClearContainers>(message);
      return;
    case MessageKind::RegisterPlan:
      compile(decode<RegisterPlan>(message));
      return;
    case MessageKind::RunStep:
      (void)decode<RunStep>(message);
      return;
    case MessageKind::StepDone:
      (void)decode<StepDone>(message);
      return;
    case MessageKind::CancelStep:
      (void)decode<CancelStep>(message);
      return;
    case MessageKind::ReleaseRun:
      (void)decode<ReleaseRun>(message);
      return;
    case MessageKind::ReleasePlan:
      (void)decode<ReleasePlan>(message);
      return;
    case MessageKind::RunPlan:
      (void)decode<RunPlan>(message);
      return;
    case MessageKind::PlanDone:
      (void)decode<PlanDone>(message);
      return;
    case MessageKind::AbortPlan:
      (void)decode<AbortPlan>(message);
      return;
    case MessageKind::StepTensors:
      (void)decode<StepTensors>(message);
      return;
    case MessageKind::Notice:
      (void)decode<Notice>(message);
      return;
    case MessageKind::Ping:
      (void)decode<Ping>(message);
      return;
    case MessageKind::Pong:
      (void)decode<Pong>(message);
      return;
    case MessageKind::GetStatus:
    case MessageKind::Shutdown:
    case MessageKind::GetDevices:
      (void)request_of(message);
      return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const Message message = message_of(data, size);
  const cohort::Status status = cohort::capture_status([&] { read(message); });
  require(status.ok() || status.code == Code::DataLoss);
  const cohort::Status other =
      cohort::capture_status([&] { (void)decode_server_status(message.header); });
  require(other.ok() || other.code == Code::DataLoss);
  return 0;
}
