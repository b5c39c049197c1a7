#include "rpc/status_call.h"

#include <chrono>

#include "base/activity.h"
#include "base/raise.h"
#include "cohort/rpc.pb.h"
#include "rpc/certificates.h"
#include "rpc/grpc_errors.h"
#include "rpc/grpc_settings.h"

namespace cohort::internal {
namespace {

Activity read_activity(const proto::TaskActivity& from) {
  Activity activity{.process = static_cast<pid_t>(from.process()),
                    .waits = {},
                    .steps = from.steps(),
                    .input_seconds = from.input_seconds(),
                    .wait_seconds = from.wait_seconds(),
                    .current_input_seconds = from.current_input_seconds()};
  for (const proto::TaskActivity::Wait& wait : from.waits()) {
    activity.waits.push_back({.kind = wait.for_answer() ? WaitKind::Answer : WaitKind::Tensor,
                              .what = wait.what(),
                              .whom = {wait.whom().begin(), wait.whom().end()},
                              .seconds = wait.seconds()});
  }
  return activity;
}

void write_activity(const Activity& activity, proto::TaskActivity& to) {
  to.set_process(activity.process);
  to.set_steps(activity.steps);
  to.set_input_seconds(activity.input_seconds);
  to.set_wait_seconds(activity.wait_seconds);
  to.set_current_input_seconds(activity.current_input_seconds);
  for (const ActivityWait& wait : activity.waits) {
    proto::TaskActivity::Wait& out = *to.add_waits();
    out.set_for_answer(wait.kind == WaitKind::Answer);
    out.set_what(wait.what);
    for (const std::string& name : wait.whom) out.add_whom(name);
    out.set_seconds(wait.seconds);
  }
}

std::string encoded_status(const StatusSource& source, bool with_details) {
  proto::StatusReply reply;
  reply.set_protocol(source.protocol);
  reply.set_version(COHORT_VERSION);
  reply.set_name(source.self.name);
  reply.set_incarnation(source.self.incarnation);
  reply.set_cluster(source.self.cluster);
  reply.set_address(source.self.address);
  reply.set_seconds_up(source.seconds_up);
  const std::chrono::duration<double> since_1970 =
      std::chrono::system_clock::now().time_since_epoch();
  reply.set_clock(since_1970.count());
  if (with_details && source.details) reply.set_details(source.details());
  if (with_details) write_activity(local_activity(), *reply.mutable_activity());
  return reply.SerializeAsString();
}

// A status request of another process. Lives until its call is over.
struct Request {
  Request(std::shared_ptr<CompletionQueueThread> at, std::shared_ptr<ServerCall> from,
          StatusSource status_source)
      : queue_thread(std::move(at)), call(std::move(from)), source(std::move(status_source)) {
    queue_thread->attach();
  }
  ~Request() { queue_thread->detach(); }

  const std::shared_ptr<CompletionQueueThread> queue_thread;
  const std::shared_ptr<ServerCall> call;
  const StatusSource source;
  grpc::ByteBuffer bytes;
};

void reply(const std::shared_ptr<Request>& request) {
  void* const done = CompletionQueueThread::tag([request](bool) {});
  std::string bytes;
  const Status problem = capture_status([&] {
    proto::StatusRequest in;
    const bool is_request = in.ParseFromString(ReceivedBytes(request->bytes).to_string());
    bytes = encoded_status(request->source, is_request && in.details());
  });
  if (problem.ok()) {
    request->call->stream().WriteAndFinish(to_byte_buffer(bytes), {}, grpc::Status::OK, done);
  } else {
    request->call->refuse(to_grpc(problem), done);
  }
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
  request.set_details(target.with_details);
  call_ = stub_->PrepareUnaryCall(&context_, kStatusMethod,
                                  to_byte_buffer(request.SerializeAsString()), queue);
  call_->StartCall();
  call_->Finish(&reply_, &outcome_, tag);
}

TaskStatus decode_status(std::string_view bytes, const std::string& address) {
  proto::StatusReply reply;
  if (!reply.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    raise(Code::DataLoss, "[Status] expected a status from {}, got another answer", address);
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
          "[Status] the process at {} says that it is {}, but does not have its certificate",
          address_, status.peer.name);
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
                          .with_details = true},
                         &queue, deadline, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  discard(queue);
  return call.answer();
}

void send_status(const std::shared_ptr<CompletionQueueThread>& queue_thread,
                 const std::shared_ptr<ServerCall>& call, StatusSource source) {
  const auto request = std::make_shared<Request>(queue_thread, call, std::move(source));
  call->read(&request->bytes, CompletionQueueThread::tag([request](bool ok) {
    if (ok) {
      reply(request);
    } else {
      request->call->finish(CompletionQueueThread::tag([request](bool) {}));
    }
  }));
}

}  // namespace cohort::internal
