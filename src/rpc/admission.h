#pragma once

#include <grpcpp/server_context.h>

#include "cohort/credentials.h"
#include "rpc/handshake.h"

namespace cohort::internal {

// Decides which calls a server accepts, before any other code sees them.
class Admission {
 public:
  Admission(Handshake self, const Credentials& credentials)
      : self_(std::move(self)), token_(credentials.token), tls_(credentials.has_certificates()) {}

  const Handshake& self() const { return self_; }

  // Throws Unauthenticated if the token is missing or wrong.
  void check_token(const grpc::ServerContext& call) const;
  // The handshake of the caller. Throws as check_token, InvalidArgument (no handshake),
  // PermissionDenied (certificate of another task), FailedPrecondition (other protocol or cluster).
  Handshake admit(const grpc::ServerContext& call) const;

 private:
  const Handshake self_;
  const std::string token_;
  const bool tls_;
};

}  // namespace cohort::internal
