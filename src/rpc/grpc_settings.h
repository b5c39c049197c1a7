#pragma once

#include <grpc/support/time.h>
#include <grpcpp/channel.h>
#include <grpcpp/server_builder.h>

#include <string>
#include <vector>

#include "cohort/cluster.h"
#include "transport/connection.h"

namespace cohort::internal {

// gRPC's monotonic clock is the steady clock.
inline gpr_timespec to_grpc_time(Deadline deadline) {
  if (deadline == Deadline::max()) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  const auto since = deadline.time_since_epoch();
  return {.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(since).count(),
          .tv_nsec = static_cast<int32_t>((since % std::chrono::seconds(1)).count()),
          .clock_type = GPR_CLOCK_MONOTONIC};
}

// Ends a queue that nothing waits for, without its last events.
inline void discard(grpc::CompletionQueue& queue) {
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
  }
}

// Throws InvalidArgument unless `address` is a host and a port to connect to, and nothing that gRPC
// would take for another kind of address; FailedPrecondition when the token would go there in the
// clear.
void check_target(const std::string& address, const Credentials& credentials);

// A channel to "host:port" with a connection of its own. Nothing is sent before it is used.
std::shared_ptr<grpc::Channel> make_channel(const std::string& address,
                                            const Credentials& credentials);

// TLS with certificates of both sides, or none.
std::shared_ptr<grpc::ServerCredentials> server_credentials(const Credentials& credentials);
// Sets limits of what strangers can take, keep-alive, and no sharing of ports.
void configure(grpc::ServerBuilder& builder);

// The names, of kind URI, in the certificate that the other side has shown.
std::vector<std::string> peer_certificate_names(const grpc::AuthContext& context);
// Throws PermissionDenied if the other side, which `who` describes, has no certificate for `name`.
void check_peer_certificate(const grpc::AuthContext& context, const std::string& name,
                            std::string_view who);

// Sends what gRPC logs to the library's log as information: strangers on a port make gRPC complain,
// and no user has to act. For the whole process.
void quiet_grpc();

}  // namespace cohort::internal
