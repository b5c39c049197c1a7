#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cohort/cluster.h"

namespace cohort::internal {

// Whether the holder of a certificate with these names may call itself `name`: a task needs its own
// certificate, a client any.
bool may_be_called(std::string_view name, std::span<const std::string> certificate_names);

// Throws what is wrong with the credentials of the endpoint `name`, before a peer finds out:
// InvalidArgument (parts missing, not PEM, key of another certificate, token too short),
// FailedPrecondition (expired, not yet valid), PermissionDenied (made for another task).
void check_credentials(const Credentials& credentials, std::string_view name);

// Compares in a time that does not show how much was right.
bool equal_secrets(std::string_view a, std::string_view b);

inline constexpr long kMonth = 30 * 24 * 3600;  // in seconds

struct CertificateRequest {
  std::string name = "client";  // of the endpoint: "/job:worker/replica:0/task:0", or a client's
  long valid_from_seconds = -3600;  // relative to now; in the past, since clocks differ
  long valid_to_seconds = kMonth;
  std::string token = {};  // for the credentials; not in the certificate
};

// A secret for a new authority: 64 letters and digits.
std::string new_secret();

// Signs the certificates of one run. Its key is made from a secret: each process that knows the
// secret is the same authority, so that one line of text lets another machine join a run.
class RunAuthority {
 public:
  // With a new secret.
  RunAuthority() : RunAuthority(new_secret()) {}
  // Its own certificate is valid for `valid_to_seconds` from now on. Throws InvalidArgument for a
  // text that is not the secret of an authority.
  explicit RunAuthority(std::string secret, long valid_to_seconds = kMonth);

  const std::string& secret() const { return secret_; }  // 64 letters and digits
  std::string token() const;  // follows from the secret, and does not reveal it
  // A new key with a certificate, and what its holder demands of peers.
  Credentials issue(const CertificateRequest& request) const;

 private:
  const std::string secret_;
  std::string certificate_;  // PEM
};

// Makes a directory that only this user may open, unless the directory exists.
void make_private_directory(const std::string& directory);
// Writes a file that only this user may open.
void write_secret_file(const std::string& path, const std::string& text);
// Writes what read_credentials reads: a directory and files that only this user may open.
void write_credentials(const std::string& directory, const Credentials& credentials);

}  // namespace cohort::internal
