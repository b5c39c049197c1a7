#pragma once

#include <string>

// What a server or a session shows to others, and demands of them.

namespace cohort {

// Certificates are text in PEM form. A certificate, its private key and an authority belong
// together: with them every connection is encrypted by TLS, both sides show a certificate that the
// authority has signed, and a task proves its name with it. The certificate of a task has the
// alternative name (of kind URI)
//
//   cohort:/job:worker/replica:0/task:1
//
// and a client's may have any. A token is a secret that all parties of a run know; without
// certificates it is sent in the clear.
//
// Without certificates a server listens on the loopback interface only, unless `insecure` is set.
struct Credentials {
  std::string certificate = {};  // this party's; then those between it and the authority, if any
  std::string private_key = {};  // of the certificate
  std::string authority = {};    // whose signature the other side must show
  std::string token = {};        // empty: none is shown, none demanded
  // Strangers may connect, read and change everything that is sent, and run what they like: for
  // networks without other users.
  bool insecure = false;

  bool has_certificates() const { return !certificate.empty(); }
};

// From the files of a directory: certificate.pem, private_key.pem, authority.pem and token. The
// token may be missing, or all but the token. NotFound when there is neither, InvalidArgument when
// only some of the certificates' three are there; both name the files.
Credentials read_credentials(const std::string& directory);

// What the variable COHORT_CREDENTIALS says, by which a launcher hands them to the programs that it
// starts: a directory for read_credentials, or the word "insecure". None when it is not set.
Credentials credentials_from_environment();

}  // namespace cohort
