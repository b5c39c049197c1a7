#include "rpc/grpc_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/raise.h"
#include "transport/message_codec.h"

namespace cohort::internal {
namespace {

// Both use the numbers of the gRPC protocol.
#define COHORT_SAME_CODE(ours, theirs) \
  static_assert(static_cast<int>(Code::ours) == static_cast<int>(grpc::StatusCode::theirs))
COHORT_SAME_CODE(Ok, OK);
COHORT_SAME_CODE(Cancelled, CANCELLED);
COHORT_SAME_CODE(Unknown, UNKNOWN);
COHORT_SAME_CODE(InvalidArgument, INVALID_ARGUMENT);
COHORT_SAME_CODE(DeadlineExceeded, DEADLINE_EXCEEDED);
COHORT_SAME_CODE(NotFound, NOT_FOUND);
COHORT_SAME_CODE(AlreadyExists, ALREADY_EXISTS);
COHORT_SAME_CODE(PermissionDenied, PERMISSION_DENIED);
COHORT_SAME_CODE(ResourceExhausted, RESOURCE_EXHAUSTED);
COHORT_SAME_CODE(FailedPrecondition, FAILED_PRECONDITION);
COHORT_SAME_CODE(Aborted, ABORTED);
COHORT_SAME_CODE(OutOfRange, OUT_OF_RANGE);
COHORT_SAME_CODE(Unimplemented, UNIMPLEMENTED);
COHORT_SAME_CODE(Internal, INTERNAL);
COHORT_SAME_CODE(Unavailable, UNAVAILABLE);
COHORT_SAME_CODE(DataLoss, DATA_LOSS);
COHORT_SAME_CODE(Unauthenticated, UNAUTHENTICATED);
#undef COHORT_SAME_CODE

std::string capped(const std::string& text) { return text.substr(0, kMaxStatusText); }

// A part of gRPC's text and its meaning. The first that fits counts.
struct Symptom {
  std::string_view sign;
  std::string_view meaning;  // "the process at {0} does not speak TLS", ...
  Code code = Code::Unavailable;
};

constexpr char kTooManyFiles[] = "Too many open files";
constexpr std::string_view kNoDescriptor =
    "this process has no file descriptor left to reach {0}: raise its limit (ulimit -n), or close "
    "files and sessions";
constexpr std::string_view kWrongCertificate =
    "the certificate of the process at {0} was not signed by this side's authority, or is not "
    "valid";
constexpr std::string_view kRefusedCertificate =
    "the process at {0} refused this side's certificate: it was not signed by its authority, has "
    "expired, or is missing";
constexpr std::string_view kPlain =
    "the process at {0} does not speak TLS, and this side demands it: give both sides credentials";

constexpr Symptom kSymptoms[] = {
    {kTooManyFiles, kNoDescriptor, Code::ResourceExhausted},
    {"Connection refused", "no process listens at {0} (connection refused)"},
    {"No route to host", "the host of {0} cannot be reached (no route)"},
    {"Network is unreachable", "the host of {0} cannot be reached (no network)"},
    {"DNS", "the host name of {0} is unknown"},
    {"resolv", "the host name of {0} is unknown"},
    {"CERTIFICATE_VERIFY_FAILED", kWrongCertificate, Code::Unauthenticated},
    {"certificate verify failed", kWrongCertificate, Code::Unauthenticated},
    {"alert", kRefusedCertificate, Code::Unauthenticated},
    {"wrong version number", kPlain, Code::Unauthenticated},
    {"timed out", "{0} does not answer"},
    {"Timeout", "{0} does not answer"},
};

bool has_free_descriptors(size_t count) {
  std::vector<FileDescriptor> some;
  while (some.size() < count) {
    some.push_back(make_event());
    if (!some.back()) return errno != EMFILE && errno != ENFILE;
  }
  return true;
}

const Symptom* symptom_in(const std::string& text) {
  const auto* const found = std::find_if(std::begin(kSymptoms), std::end(kSymptoms), [&](auto& s) {
    return text.find(s.sign) != std::string::npos;
  });
  return found == std::end(kSymptoms) ? nullptr : found;
}

// For a connection that was accepted and then dropped: a TLS server does so when the caller does
// not speak TLS, or when it refuses the certificate.
std::string dropped_text(const std::string& address, bool with_certificates) {
  return with_certificates
             ? fmt::format(
                   "the process at {} ended the connection during the handshake: it does not speak "
                   "TLS, or refused this side's certificate",
                   address)
             : fmt::format(
                   "the process at {} ended the connection during the handshake: it is not a "
                   "Cohort server, or demands certificates and this side has none",
                   address);
}

Status from_grpc(const grpc::Status& status) {
  const int code = std::clamp<int>(status.error_code(), 0, static_cast<int>(Code::Unauthenticated));
  return {static_cast<Code>(code), capped(status.error_message())};
}

CallFailure unavailable(const grpc::Status& outcome, const std::string& address,
                        bool with_certificates) {
  // gRPC does not always say that it lacked a descriptor.
  const std::string text = has_free_descriptors(1) ? outcome.error_message() : kTooManyFiles;
  if (const Symptom* const symptom = symptom_in(text)) {
    const std::string meaning = fmt::format(fmt::runtime(symptom->meaning), address);
    return {{symptom->code, fmt::format("[Connect] {}", meaning)},
            symptom->code == Code::Unavailable ? CallFailure::Kind::Passing
                                               : CallFailure::Kind::Lasting};
  }
  if (text.find("failed to connect") == std::string::npos) {
    return {{Code::Unavailable, fmt::format("[Connect] the process at {} has ended", address)},
            CallFailure::Kind::Passing};
  }
  return {{Code::Unauthenticated,
           fmt::format("[Connect] {}", dropped_text(address, with_certificates))},
          CallFailure::Kind::Dubious};
}

}  // namespace

grpc::Status to_grpc(const Status& status) {
  return {static_cast<grpc::StatusCode>(status.code), capped(status.message)};
}

void require_descriptors_for_grpc() {
  constexpr size_t kOfGrpc = 8;  // gRPC opens 4 at its first connection
  if (has_free_descriptors(kOfGrpc)) return;
  raise(Code::ResourceExhausted,
        "[Connect] this process has fewer than {} free file descriptors, which connections need; "
        "raise the limit (ulimit -n), or close files and sessions",
        kOfGrpc);
}

Status lost_connection(const Peer& peer, const grpc::Status& outcome) {
  const bool silent = outcome.error_message().find("keepalive") != std::string::npos;
  return {Code::Unavailable,
          fmt::format("[Connection] the connection to {}{}{} was lost: {}", peer.name,
                      peer.address.empty() ? "" : " at ", peer.address,
                      silent ? "it did not answer any more"
                             : "its process has ended, or the network between the hosts failed")};
}

CallFailure explain_failure(const grpc::Status& outcome, const std::string& address,
                            bool with_certificates) {
  log_debug("[Connect] gRPC about {}: {} {}", address, static_cast<int>(outcome.error_code()),
            outcome.error_message());
  switch (outcome.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      return unavailable(outcome, address, with_certificates);
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return {{Code::DeadlineExceeded, fmt::format("[Connect] {} did not answer in time", address)},
              CallFailure::Kind::Passing};
    case grpc::StatusCode::UNIMPLEMENTED:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::INTERNAL:
      return {{Code::FailedPrecondition,
               fmt::format("[Connect] the process at {} is not a Cohort server ({})", address,
                           capped(outcome.error_message()))},
              CallFailure::Kind::Lasting};
    default: {
      Status status = from_grpc(outcome);
      if (!status.message.starts_with("[")) {
        status.message = fmt::format("[Connect] {}: {}", address, status.message);
      }
      const bool is_full = status.code == Code::ResourceExhausted;
      return {std::move(status), is_full ? CallFailure::Kind::Passing : CallFailure::Kind::Lasting};
    }
  }
}

}  // namespace cohort::internal
