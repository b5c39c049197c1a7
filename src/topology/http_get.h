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
  std::string ca_file = {};  // PEM of those who may vouch for the server; empty = the system's
  std::chrono::milliseconds timeout{10'000};
};

// The body of the answer. A server that does not answer is Unavailable, one that takes too long
// DeadlineExceeded, one without a good certificate Unauthenticated; an answer other than 200 is the
// code that its status means, and one of more than 64 MB ResourceExhausted. Redirections are not
// followed: headers may hold a secret that is for this server alone.
std::string http_get(const HttpRequest& request);

// `text` as part of a query.
std::string url_encoded(std::string_view text);

}  // namespace cohort::internal
