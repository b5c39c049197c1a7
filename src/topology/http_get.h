#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>

namespace cohort::internal {

struct HttpRequest {
  std::string_view operation;  // for messages: "Kubernetes"
  std::string url;             // http://host[:port]/path?query or https://
  std::map<std::string, std::string> headers = {};
  std::string ca_file = {};  // PEM with the trusted authorities; empty = the system's
  std::chrono::milliseconds timeout{10'000};
};

// The body of the answer. Throws Unavailable if the server does not answer, DeadlineExceeded if it
// takes too long, Unauthenticated if its certificate is bad, the code that fits the status for an
// answer other than 200, and ResourceExhausted for an answer of more than 64 MB. Redirections are
// not followed, because the headers may hold a secret that only this server may see.
std::string http_get(const HttpRequest& request);

// `text` as part of a query.
std::string url_encoded(std::string_view text);

}  // namespace cohort::internal
