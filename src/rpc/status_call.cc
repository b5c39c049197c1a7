#include "rpc/status_call.h"

#include "base/raise.h"
#include "cohort/rpc.pb.h"
#include "rpc/byte_buffers.h"
#include "rpc/certificates.h"
#include "rpc/grpc_errors.h"
#include "rpc/grpc_settings.h"
#include "rpc/grpc_time.h"
#include "rpc/target.h"
#include "rpc/wire_names.h"

namespace cohort::internal {
namespace {

Activity read_activity(const proto::TaskActivity& from) {
  Activity activity{.process = static_cast<pid_t>(from.process()),
                    .waits = {},
                    .steps = from.steps(),
                    .input_seconds = from.input_seconds(),
                    .wait_seconds = from.wait_seconds(),
                    .current_input_seconds = from.current_input_seconds()};
  for (const proto::TaskActivity::Wait& told : from.waits()) {
    activity.waits.push_back({.kind = told.for_answer() ? WaitKind::Answer : WaitKind::Tensor,
                              .what = told.what(),
                              .whom = {told.whom().begin(), told.whom().end()},
                              .seconds = told.seconds()});
  }
  return activity;
}

}  // namespace

StatusRequestCall::StatusRequestCall(const Target& target, grpc::CompletionQueue* queue,
                                     Deadline deadline, void* tag)
    : address_(target.address),
      with_certificates_(target.credentials.has_certificates()),
      stub_(std::make_unique<grpc::GenericStub>(target.channel)) {
  context_.set_deadline(to_grpc_time(deadline));
  if (!target.credentials.token.empty()) context_.AddMetadata(kTokenKey, target.credentials.token);
  proto::StatusRequest request;
  request.set_details(target.details == Details::With);
  call_ = stub_->PrepareUnaryCall(&context_, kStatusMethod,
                                  to_byte_buffer(request.SerializeAsString()), queue);
  call_->StartCall();
  call_->Finish(&reply_, &outcome_, tag);
}

TaskStatus decode_status(std::string_view bytes, const std::string& address) {
  proto::StatusReply reply;
  if (!reply.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    raise(Code::DataLoss, "[Status] {} answered what is no status", address);
  }
  return {.peer = {.name = reply.name(),
                   .incarnation = reply.incarnation(),
                   .address = reply.address(),
                   .cluster = reply.cluster()},
          .protocol = reply.protocol(),
          .version = reply.version(),
          .cluster = reply.cluster(),
          .seconds_up = reply.seconds_up(),
          .clock = reply.clock(),
          .details = reply.details(),
          .activity = read_activity(reply.activity())};
}

TaskStatus StatusRequestCall::answer() {
  if (!outcome_.ok()) throw Error(explain_failure(outcome_, address_, with_certificates_).status);
  TaskStatus status = decode_status(ReceivedBytes(reply_).to_string(), address_);
  if (with_certificates_ &&
      !may_be_called(status.peer.name, peer_certificate_names(*context_.auth_context()))) {
    raise(Code::PermissionDenied,
          "[Status] who answers at {} says that it is {}, and has not its certificate", address_,
          status.peer.name);
  }
  return status;
}

TaskStatus ask_status(const std::string& address, const Credentials& credentials,
                      Deadline deadline) {
  check_target(address, credentials);
  quiet_grpc();
  grpc::CompletionQueue queue;
  StatusRequestCall call({.channel = make_channel(address, credentials),
                          .address = address,
                          .credentials = credentials,
                          .details = StatusRequestCall::Details::With},
                         &queue, deadline, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return call.answer();
}

}  // namespace cohort::internal
