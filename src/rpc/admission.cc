#include "rpc/admission.h"

#include <optional>

#include "base/raise.h"
#include "rpc/certificates.h"
#include "rpc/grpc_settings.h"
#include "rpc/wire_names.h"

namespace cohort::internal {
namespace {

std::optional<std::string> metadata(const grpc::ServerContext& call, const char* key) {
  const auto found = call.client_metadata().find(key);
  if (found == call.client_metadata().end()) return std::nullopt;
  return std::string(found->second.data(), found->second.size());
}

}  // namespace

void Admission::check_token(const grpc::ServerContext& call) const {
  if (token_.empty()) return;
  const auto shown = metadata(call, kTokenKey);
  if (shown && equal_secrets(*shown, token_)) return;
  raise(Code::Unauthenticated,
        "[Connect] {} demands the token of its run, and the caller shows {}; start both with the "
        "same credentials",
        self_.peer.name, shown ? "another" : "none");
}

Handshake Admission::admit(const grpc::ServerContext& call) const {
  check_token(call);
  const auto bytes = metadata(call, kHandshakeKey);
  if (!bytes)
    raise(Code::InvalidArgument, "[Connect] the caller sent {} no handshake", self_.peer.name);
  Handshake from = decode_handshake(*bytes, self_.peer.name);
  if (tls_) {
    const auto names = peer_certificate_names(*call.auth_context());
    if (!may_be_called(from.peer.name, names)) {
      raise(Code::PermissionDenied,
            "[Connect] the caller says that it is {}, and its certificate is for [{}]",
            from.peer.name, fmt::join(names, ", "));
    }
  }
  check_handshake(from, self_);
  return from;
}

}  // namespace cohort::internal
