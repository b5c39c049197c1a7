#pragma once

#include <grpcpp/support/status.h>

#include <string>

#include "transport/connection.h"

namespace cohort::internal {

// gRPC's errors in words of ours, which name the task and say what to do.

// As it goes over the wire: text is cut at 4 KB.
grpc::Status to_grpc(const Status& status);
// The same code and text, without prefixes of ours.
Status from_grpc(const grpc::Status& status);

// Throws ResourceExhausted unless this process can open what gRPC opens when it starts: gRPC aborts
// the process where it cannot.
void require_descriptors_for_grpc();

// A connection that has ended without a word.
Status lost_connection(const Peer& peer, const grpc::Status& outcome);

// Why a call to `address` did not come through.
struct CallFailure {
  // Passing: may be different in a moment, worth another try. Dubious: may have been an accident,
  // and is none when it happens again and again.
  enum class Kind { Lasting, Passing, Dubious };
  Status status = {};
  Kind kind = Kind::Lasting;
};
CallFailure explain_failure(const grpc::Status& outcome, const std::string& address,
                            bool with_certificates);

}  // namespace cohort::internal
