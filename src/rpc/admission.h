#pragma once

#include <grpcpp/server_context.h>

#include "cohort/credentials.h"
#include "rpc/greeting.h"

namespace cohort::internal {

// Whom a server lets in. Everything here happens before any other code sees a call.
class Admission {
 public:
  Admission(Greeting self, const Credentials& credentials)
      : self_(std::move(self)), token_(credentials.token), tls_(credentials.has_certificates()) {}

  const Greeting& self() const { return self_; }

  // Throws Unauthenticated when the token is missing or wrong.
  void check_token(const grpc::ServerContext& call) const;
  // The greeting of who calls. Throws as check_token, InvalidArgument (no greeting),
  // PermissionDenied (certificate of another task), FailedPrecondition (other protocol or cluster).
  Greeting admit(const grpc::ServerContext& call) const;

 private:
  const Greeting self_;
  const std::string token_;
  const bool tls_;
};

}  // namespace cohort::internal
