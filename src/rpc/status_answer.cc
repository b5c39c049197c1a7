#include "rpc/status_answer.h"

#include <chrono>

#include "base/activity.h"
#include "cohort/rpc.pb.h"
#include "rpc/byte_buffers.h"
#include "rpc/grpc_errors.h"

namespace cohort::internal {
namespace {

void write_activity(const Activity& activity, proto::TaskActivity& to) {
  to.set_process(activity.process);
  to.set_steps(activity.steps);
  to.set_input_seconds(activity.input_seconds);
  to.set_wait_seconds(activity.wait_seconds);
  to.set_current_input_seconds(activity.current_input_seconds);
  for (const ActivityWait& wait : activity.waits) {
    proto::TaskActivity::Wait& told = *to.add_waits();
    told.set_for_answer(wait.kind == WaitKind::Answer);
    told.set_what(wait.what);
    for (const std::string& name : wait.whom) told.add_whom(name);
    told.set_seconds(wait.seconds);
  }
}

std::string encoded_status(const StatusSource& source, bool with_details) {
  proto::StatusReply reply;
  reply.set_protocol(source.greeting.protocol);
  reply.set_version(COHORT_VERSION);
  reply.set_name(source.greeting.peer.name);
  reply.set_incarnation(source.greeting.peer.incarnation);
  reply.set_cluster(source.greeting.cluster);
  reply.set_address(source.greeting.peer.address);
  reply.set_seconds_up(source.seconds_up);
  const std::chrono::duration<double> since_1970 =
      std::chrono::system_clock::now().time_since_epoch();
  reply.set_clock(since_1970.count());
  if (with_details && source.details) reply.set_details(source.details());
  if (with_details) write_activity(own_activity(), *reply.mutable_activity());
  return reply.SerializeAsString();
}

// Lives until its call is over.
struct StatusCall {
  StatusCall(std::shared_ptr<Pump> at, std::shared_ptr<ServerCall> asking, StatusSource told)
      : pump(std::move(at)), call(std::move(asking)), source(std::move(told)) {
    pump->attach();
  }
  ~StatusCall() { pump->detach(); }

  const std::shared_ptr<Pump> pump;
  const std::shared_ptr<ServerCall> call;
  const StatusSource source;
  grpc::ByteBuffer request;
};

void reply(const std::shared_ptr<StatusCall>& asked) {
  void* const done = Pump::tag([asked](bool) {});
  std::string bytes;
  const Status problem = capture_status([&] {
    proto::StatusRequest request;
    const std::string text = ReceivedBytes(asked->request).to_string();
    const bool is_request = request.ParseFromString(text);
    bytes = encoded_status(asked->source, is_request && request.details());
  });
  if (problem.ok()) {
    asked->call->stream().WriteAndFinish(to_byte_buffer(bytes), {}, grpc::Status::OK, done);
  } else {
    asked->call->refuse(to_grpc(problem), done);
  }
}

}  // namespace

void send_status(const std::shared_ptr<Pump>& pump, const std::shared_ptr<ServerCall>& call,
                 StatusSource source) {
  const auto asked = std::make_shared<StatusCall>(pump, call, std::move(source));
  call->read(&asked->request, Pump::tag([asked](bool ok) {
    if (ok) {
      reply(asked);
    } else {
      asked->call->finish(Pump::tag([asked](bool) {}));
    }
  }));
}

}  // namespace cohort::internal
