#pragma once

#include <string>

#include "cohort/credentials.h"

namespace cohort::internal {

inline constexpr long kMonth = 30 * 24 * 3600;  // in seconds

struct CertificateRequest {
  std::string name = "client";      // of the party: "/job:worker/replica:0/task:0", or a client's
  long valid_from_seconds = -3600;  // from now on; before now, since clocks differ
  long valid_to_seconds = kMonth;
  std::string token = {};  // for the credentials; not in the certificate
};

// A secret for a new authority: 64 letters and digits.
std::string new_secret();

// Signs the certificates of one run. Its key is made from a secret: whoever knows the secret is the
// same authority, so that one line of text lets another machine join a run.
class RunAuthority {
 public:
  // With a new secret.
  RunAuthority() : RunAuthority(new_secret()) {}
  // Its own certificate is valid for `valid_to_seconds` from now on. InvalidArgument for a text
  // that is not the secret of an authority.
  explicit RunAuthority(std::string secret, long valid_to_seconds = kMonth);

  const std::string& secret() const { return secret_; }  // 64 letters and digits
  std::string token() const;  // follows from the secret, and does not tell it
  // A new key with a certificate, and what its holder demands of others.
  Credentials issue(const CertificateRequest& request) const;

 private:
  const std::string secret_;
  std::string certificate_;  // PEM
};

// A folder that only this user may open, unless it is there already. A file as such.
void make_private_folder(const std::string& folder);
void write_secret_file(const std::string& path, const std::string& text);
// Writes what read_credentials reads: a folder and files that only this user may open.
void write_credentials(const std::string& folder, const Credentials& credentials);

}  // namespace cohort::internal
