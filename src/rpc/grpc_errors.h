#pragma once

#include <grpcpp/support/status.h>

#include <string>

#include "transport/connection.h"

namespace cohort::internal {

// gRPC's errors in our words, which name the task and say what to do.

// For the wire: the text is cut at 4 KB.
grpc::Status to_grpc(const Status& status);

// Throws ResourceExhausted unless this process can open what gRPC opens when it starts: gRPC aborts
// the process where it cannot.
void require_descriptors_for_grpc();

// For a connection that has ended without a close chunk.
Status lost_connection(const Peer& peer, const grpc::Status& outcome);

// Why a call to `address` failed.
struct CallFailure {
  // Passing: another try may succeed. Dubious: may be an accident, and counts as lasting when it
  // happens again and again.
  enum class Kind { Lasting, Passing, Dubious };
  Status status = {};
  Kind kind = Kind::Lasting;
};
CallFailure explain_failure(const grpc::Status& outcome, const std::string& address,
                            bool with_certificates);

}  // namespace cohort::internal
