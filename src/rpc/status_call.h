#pragma once

#include <memory>
#include <string>

#include "rpc/completion_queue_thread.h"
#include "rpc/stream_call.h"
#include "rpc/task_status.h"

namespace cohort::internal {

// A status request that this process has sent.
class StatusRequestCall {
 public:
  struct Target {
    std::shared_ptr<grpc::Channel> channel;
    std::string address;
    const Credentials& credentials;  // outlives the construction
    bool with_details = false;
  };
  // Ends with `tag` at the queue, by the deadline.
  StatusRequestCall(const Target& target, grpc::CompletionQueue* queue, Deadline deadline,
                    void* tag);

  // Called after the end. Throws why no answer came.
  TaskStatus answer();
  void cancel() { context_.TryCancel(); }

 private:
  const std::string address_;
  const bool with_certificates_;
  grpc::ClientContext context_;
  grpc::ByteBuffer reply_;
  grpc::Status outcome_;
  std::unique_ptr<grpc::GenericStub> stub_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> call_;
};

// What a task says about itself.
struct StatusSource {
  Peer self = {};
  uint32_t protocol = 0;
  double seconds_up = 0;
  std::function<std::string()> details = {};  // more text, if any
};
// Answers a status request.
void send_status(const std::shared_ptr<CompletionQueueThread>& queue_thread,
                 const std::shared_ptr<ServerCall>& call, StatusSource source);

}  // namespace cohort::internal
