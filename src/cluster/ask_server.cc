// Requests to a server that need no session.

#include "cluster/ask_server.h"

#include "base/raise.h"
#include "cluster/request_link.h"
#include "cluster/server_status.h"
#include "cohort/server.h"
#include "topology/address.h"

namespace cohort {
namespace {

using internal::Answer;
using internal::Link;
using internal::Message;

constexpr auto kConnectLimit = std::chrono::seconds(10);
constexpr auto kAnswerLimit = std::chrono::seconds(60);

Answer ask_at(const std::string& address, const Credentials& credentials,
              std::chrono::milliseconds connect_limit, Message request) {
  const auto endpoint = internal::make_client_endpoint(credentials);
  const auto now = std::chrono::steady_clock::now();
  const Link::Pointer link = Link::start(endpoint->connect(address, now + connect_limit), "",
                                         {.received = [](const Link::Pointer&, const Message&) {},
                                          .ended = [](const Link::Pointer&, const Status&) {}});
  Answer answer;
  const Status status =
      capture_status([&] { answer = link->call(std::move(request), now + kAnswerLimit); });
  link->close({.code = Code::Cancelled, .message = "the answer is there"});
  throw_if_error(status);
  return answer;
}

Answer ask(std::string_view target, Message request) {
  const auto parsed = internal::parse_target(target);
  if (!parsed) internal::raise(Code::NotFound, "[Server] the target is empty");
  if (parsed->protocol != "grpc") {
    internal::raise(Code::NotFound,
                    "[Server] expected a target of the form grpc://host:port, got '{}'", target);
  }
  return ask_at(internal::address_text(parsed->address.host, parsed->address.port),
                credentials_from_environment(), kConnectLimit, std::move(request));
}

}  // namespace

namespace internal {

void clear_containers(std::string_view address, const ClearContainers& request,
                      const Credentials& credentials, std::chrono::milliseconds limit) {
  ask_at(std::string(address), credentials, limit, encode(request));
}

void shut_down_server(std::string_view address, const Credentials& credentials,
                      std::chrono::milliseconds limit) {
  ask_at(std::string(address), credentials, limit, encode(Shutdown{}));
}

}  // namespace internal

void reset(std::string_view target, const std::vector<std::string>& containers) {
  ask(target, encode(internal::ResetContainers{containers}));
}

ServerStatus server_status(std::string_view target) {
  const Answer answer = ask(target, encode(internal::GetStatus{}));
  if (answer.texts.size() != 1) {
    internal::raise(Code::Internal, "[Server] the answer of '{}' is too short", target);
  }
  return internal::decode_server_status(answer.texts[0]);
}

}  // namespace cohort
