// Reads bytes as a message between the parties of a cluster. What is refused must be refused by
// DataLoss; a plan that can be read must be compiled or refused as InvalidArgument.
//
// Input: the length of the header (2 bytes, little-endian), the header, then one payload.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "cluster/protocol.h"
#include "cluster/server_status.h"
#include "cluster/worker_plan.h"
#include "cohort/error.h"
#include "transport/direct.h"

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
      (void)read_answer(message);
      return;
    case MessageKind::OpenSession:
      (void)read_open_session(message);
      return;
    case MessageKind::ExtendSession:
      (void)read_extend_session(message);
      return;
    case MessageKind::PrepareRun:
      (void)read_prepare_run(message);
      return;
    case MessageKind::CloseSession:
    case MessageKind::ListDevices:
    case MessageKind::CloseWorkerSession:
      (void)read_session_request(message);
      return;
    case MessageKind::ResetContainers:
    case MessageKind::ClearContainers:
      (void)read_texts_request(message);
      return;
    case MessageKind::RegisterPlan:
      compile(read_register_plan(message));
      return;
    case MessageKind::RunStep:
      (void)read_run_step(message);
      return;
    case MessageKind::StepDone:
      (void)read_step_done(message);
      return;
    case MessageKind::CancelStep:
      (void)read_cancel_step(message);
      return;
    case MessageKind::ReleaseRun:
    case MessageKind::ReleasePlan:
      (void)read_release(message);
      return;
    case MessageKind::RunPlan:
      (void)read_run_plan(message);
      return;
    case MessageKind::PlanDone:
      (void)read_plan_done(message);
      return;
    case MessageKind::AbortPlan:
      (void)read_abort_plan(message);
      return;
    case MessageKind::StepTensors:
      (void)read_step_tensors(message);
      return;
    case MessageKind::Notice:
      (void)read_notice(message);
      return;
    case MessageKind::GetStatus:
    case MessageKind::Shutdown:
    case MessageKind::GetDevices:
    case MessageKind::Ping:
    case MessageKind::Pong:
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
      cohort::capture_status([&] { (void)read_server_status(message.header); });
  require(other.ok() || other.code == Code::DataLoss);
  return 0;
}
