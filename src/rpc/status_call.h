#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include "rpc/task_status.h"

namespace cohort::internal {

// One status request that is under way.
class StatusRequestCall {
 public:
  enum class Details { Without, With };
  struct Target {
    std::shared_ptr<grpc::Channel> channel;
    std::string address;
    const Credentials& credentials;  // outlives the construction
    Details details = Details::Without;
  };
  // Ends with `tag` at the queue, at the deadline at the latest.
  StatusRequestCall(const Target& target, grpc::CompletionQueue* queue, Deadline deadline,
                    void* tag);

  // After its end. Throws why there is no answer.
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

}  // namespace cohort::internal
