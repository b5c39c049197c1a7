#include "topology/http_get.h"

#include <httplib.h>

#include "base/raise.h"
#include "base/text.h"

namespace cohort::internal {
namespace {

constexpr size_t kMaxAnswerBytes = size_t{64} << 20;

struct Url {
  std::string server;  // https://host:port
  std::string path;
};

Url parse_url(const HttpRequest& request) {
  const std::string& url = request.url;
  const bool http = url.starts_with("http://") || url.starts_with("https://");
  const size_t host = url.find("://") + 3;
  const size_t slash = http ? url.find('/', host) : std::string::npos;
  if (!http || host == url.size() || slash == host) {
    raise(Code::InvalidArgument, "[{}] '{}' is not an address; expected http:// or https://",
          request.operation, excerpt(url));
  }
  if (slash == std::string::npos) return {url, "/"};
  return {url.substr(0, slash), url.substr(slash)};
}

Code code_of(httplib::Error error) {
  switch (error) {
    case httplib::Error::SSLConnection:
    case httplib::Error::SSLLoadingCerts:
    case httplib::Error::SSLServerVerification:
      return Code::Unauthenticated;
    case httplib::Error::ConnectionTimeout:
      return Code::DeadlineExceeded;
    default:
      return Code::Unavailable;
  }
}

Code code_of_status(int status) {
  switch (status) {
    case 401:
      return Code::Unauthenticated;
    case 403:
      return Code::PermissionDenied;
    case 404:
      return Code::NotFound;
    case 429:
      return Code::Unavailable;
    default:
      return status >= 500 ? Code::Unavailable : Code::FailedPrecondition;
  }
}

httplib::Client make_client(const HttpRequest& request, const std::string& server) {
  httplib::Client client(server);
  client.set_follow_location(false);
  client.set_connection_timeout(request.timeout);
  client.set_read_timeout(request.timeout);
  client.set_write_timeout(request.timeout);
  client.enable_server_certificate_verification(true);
  if (!request.ca_file.empty()) client.set_ca_cert_path(request.ca_file);
  return client;
}

// Why the answer did not arrive whole.
enum class Cut { No, TooLate, TooLong };

struct Received {
  std::string body = {};
  Cut cut = Cut::No;
};

void check_answer(const HttpRequest& request, const httplib::Result& answer,
                  const Received& received) {
  if (received.cut == Cut::TooLate) {
    raise(Code::DeadlineExceeded, "[{}] {} did not send its complete answer within {} ms",
          request.operation, excerpt(request.url), request.timeout.count());
  }
  if (received.cut == Cut::TooLong) {
    raise(Code::ResourceExhausted, "[{}] the answer of {} is longer than {} bytes",
          request.operation, excerpt(request.url), kMaxAnswerBytes);
  }
  if (!answer) {
    raise(code_of(answer.error()), "[{}] cannot ask {}: {} (the time limit is {} ms)",
          request.operation, excerpt(request.url), httplib::to_string(answer.error()),
          request.timeout.count());
  }
  if (answer->status != 200) {
    raise(code_of_status(answer->status), "[{}] {} answered {}: {}", request.operation,
          excerpt(request.url), answer->status, excerpt(received.body));
  }
}

}  // namespace

std::string http_get(const HttpRequest& request) {
  using Clock = std::chrono::steady_clock;
  const Url url = parse_url(request);
  httplib::Client client = make_client(request, url.server);
  const Clock::time_point deadline = Clock::now() + request.timeout;
  Received received;
  const auto receive = [&](const char* data, size_t size) {
    if (Clock::now() > deadline) received.cut = Cut::TooLate;
    if (received.body.size() + size > kMaxAnswerBytes) received.cut = Cut::TooLong;
    if (received.cut != Cut::No) return false;
    received.body.append(data, size);
    return true;
  };
  const httplib::Result answer = client.Get(
      url.path, httplib::Headers(request.headers.begin(), request.headers.end()), receive);
  if (!answer && answer.error() == httplib::Error::Read && Clock::now() >= deadline) {
    received.cut = Cut::TooLate;
  }
  check_answer(request, answer, received);
  return std::move(received.body);
}

std::string url_encoded(std::string_view text) {
  std::string result;
  for (const unsigned char c : text) {
    const bool plain = std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '~';
    result += plain ? std::string(1, static_cast<char>(c)) : fmt::format("%{:02X}", c);
  }
  return result;
}

}  // namespace cohort::internal
