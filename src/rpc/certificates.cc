#include "rpc/certificates.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/raise.h"

namespace cohort::internal {
namespace {

constexpr size_t kMinTokenBytes = 16;
constexpr size_t kSecretBytes = 32;
using SecretBytes = std::array<unsigned char, kSecretBytes>;
using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

template <auto release>
struct Release {
  template <typename T>
  void operator()(T* what) const {
    release(what);
  }
};
using Bio = std::unique_ptr<BIO, Release<&BIO_free>>;
using Certificate = std::unique_ptr<X509, Release<&X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Release<&EVP_PKEY_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, Release<&GENERAL_NAMES_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Release<&X509_EXTENSION_free>>;

Digest digest_of(std::string_view text) {
  Digest digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

Bio memory(std::string_view text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// A password prompt would wait for a terminal forever.
int no_password(char*, int, int, void*) { return 0; }

Certificate parse_certificate(std::string_view pem, std::string_view what) {
  Certificate certificate(PEM_read_bio_X509(memory(pem).get(), nullptr, &no_password, nullptr));
  ERR_clear_error();
  if (!certificate) {
    raise(Code::InvalidArgument, "[Credentials] the {} is not a certificate in PEM form", what);
  }
  return certificate;
}

Key parse_key(std::string_view pem) {
  Key key(PEM_read_bio_PrivateKey(memory(pem).get(), nullptr, &no_password, nullptr));
  ERR_clear_error();
  if (!key) {
    raise(Code::InvalidArgument,
          "[Credentials] the private key is not in PEM form, or is locked by a password");
  }
  return key;
}

// The text that write() puts into memory.
template <typename Write>
std::string text_from(const Write& write) {
  const Bio out(BIO_new(BIO_s_mem()));
  write(out.get());
  char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  return {data, static_cast<size_t>(size)};
}

std::string to_text(const ASN1_TIME* time) {
  return text_from([&](BIO* out) { ASN1_TIME_print(out, time); });
}

void check_time(const X509* certificate) {
  const ASN1_TIME* const from = X509_get0_notBefore(certificate);
  const ASN1_TIME* const to = X509_get0_notAfter(certificate);
  if (X509_cmp_current_time(from) > 0) {
    raise(Code::FailedPrecondition,
          "[Credentials] the certificate is valid from {} on; check the clock of this machine",
          to_text(from));
  }
  if (X509_cmp_current_time(to) < 0) {
    raise(Code::FailedPrecondition, "[Credentials] the certificate expired on {}; make a new one",
          to_text(to));
  }
}

std::vector<std::string> uri_names(const X509* certificate) {
  const Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> found;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* const uri = name->d.uniformResourceIdentifier;
    found.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                       static_cast<size_t>(ASN1_STRING_length(uri)));
  }
  return found;
}

// The alternative name, of kind URI, by which a certificate belongs to a task.
std::string certificate_name(std::string_view task) { return fmt::format("cohort:{}", task); }

void check_certificates(const Credentials& credentials, std::string_view name) {
  if (credentials.private_key.empty() || credentials.authority.empty()) {
    raise(Code::InvalidArgument,
          "[Credentials] a certificate needs a private key and an authority");
  }
  const Certificate certificate = parse_certificate(credentials.certificate, "certificate");
  const Certificate authority = parse_certificate(credentials.authority, "authority");
  if (X509_check_private_key(certificate.get(), parse_key(credentials.private_key).get()) != 1) {
    ERR_clear_error();
    raise(Code::InvalidArgument,
          "[Credentials] the private key does not belong to the certificate");
  }
  check_time(certificate.get());
  const std::vector<std::string> names = uri_names(certificate.get());
  if (!may_be_called(name, names)) {
    raise(Code::PermissionDenied,
          "[Credentials] the certificate is not for {}: it needs the alternative name URI:{}, and "
          "has [{}]",
          name, certificate_name(name), fmt::join(names, ", "));
  }
}

template <typename T>
T made(T what) {
  if (!what) raise(Code::Internal, "[Credentials] OpenSSL could not make a certificate");
  return what;
}

std::string hex(std::span<const unsigned char> bytes) {
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

SecretBytes bytes_of(std::string_view secret) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  SecretBytes bytes{};
  bool good = secret.size() == 2 * kSecretBytes;
  for (size_t i = 0; good && i < secret.size(); ++i) {
    const size_t digit = kDigits.find(secret[i]);
    good = digit != std::string_view::npos;
    if (good) bytes[i / 2] = static_cast<unsigned char>(bytes[i / 2] * 16 + digit);
  }
  if (!good) {
    raise(Code::InvalidArgument,
          "[Credentials] the token of a run must be the {} letters and digits that `cohort run` "
          "printed",
          2 * kSecretBytes);
  }
  return bytes;
}

Key authority_key(const std::string& secret) {
  const SecretBytes bytes = bytes_of(secret);
  return made(
      Key(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, bytes.data(), bytes.size())));
}

// The name differs from run to run, so that a certificate of another run has an unknown issuer.
std::string authority_name(EVP_PKEY& key) {
  SecretBytes public_key{};
  size_t size = public_key.size();
  EVP_PKEY_get_raw_public_key(&key, public_key.data(), &size);
  return "cohort run " + hex(std::span(public_key).first(8));
}

void name_subject(X509& certificate, const std::string& name) {
  X509_NAME_add_entry_by_txt(X509_get_subject_name(&certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
}

Certificate unsigned_certificate(const std::string& subject, EVP_PKEY& key,
                                 const CertificateRequest& request) {
  Certificate certificate = made(Certificate(X509_new()));
  X509_set_version(certificate.get(), X509_VERSION_3);
  uint64_t serial = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()), serial >> 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), request.valid_from_seconds);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), request.valid_to_seconds);
  X509_set_pubkey(certificate.get(), &key);
  name_subject(*certificate, subject);
  return certificate;
}

void extend(X509& certificate, int what, const std::string& value) {
  const Extension extension =
      made(Extension(X509V3_EXT_conf_nid(nullptr, nullptr, what, value.c_str())));
  X509_add_ext(&certificate, extension.get(), -1);
}

void sign(X509& certificate, EVP_PKEY& authority, const X509& issuer) {
  X509_set_issuer_name(&certificate, X509_get_subject_name(&issuer));
  if (X509_sign(&certificate, &authority, nullptr) == 0) {
    raise(Code::Internal, "[Credentials] OpenSSL could not sign a certificate");
  }
}

std::string pem(X509& certificate) {
  return text_from([&](BIO* out) { PEM_write_bio_X509(out, &certificate); });
}
std::string pem(EVP_PKEY& key) {
  return text_from([&](BIO* out) {
    PEM_write_bio_PrivateKey(out, &key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

Certificate authority_certificate(const std::string& secret, long valid_to_seconds) {
  const Key key = authority_key(secret);
  Certificate certificate =
      unsigned_certificate(authority_name(*key), *key, {.valid_to_seconds = valid_to_seconds});
  extend(*certificate, NID_basic_constraints, "critical,CA:TRUE");
  extend(*certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
  sign(*certificate, *key, *certificate);
  return certificate;
}

}  // namespace

bool may_be_called(std::string_view name, std::span<const std::string> certificate_names) {
  if (!name.starts_with("/job:")) return true;  // a client
  const auto wanted = certificate_name(name);
  return std::find(certificate_names.begin(), certificate_names.end(), wanted) !=
         certificate_names.end();
}

void check_credentials(const Credentials& credentials, std::string_view name) {
  if (!credentials.token.empty() && credentials.token.size() < kMinTokenBytes) {
    raise(Code::InvalidArgument,
          "[Credentials] a token of {} characters can be guessed; it needs at least {}",
          credentials.token.size(), kMinTokenBytes);
  }
  if (credentials.has_certificates()) {
    check_certificates(credentials, name);
  } else if (!credentials.private_key.empty() || !credentials.authority.empty()) {
    raise(Code::InvalidArgument, "[Credentials] a private key or an authority needs a certificate");
  }
}

bool equal_secrets(std::string_view a, std::string_view b) {
  // Digests have one length, so that the time does not show the length either.
  return CRYPTO_memcmp(digest_of(a).data(), digest_of(b).data(), SHA256_DIGEST_LENGTH) == 0;
}

std::string new_secret() {
  SecretBytes bytes{};
  if (RAND_bytes(bytes.data(), kSecretBytes) != 1) {
    raise(Code::Internal, "[Credentials] the system gives no random numbers");
  }
  return hex(bytes);
}

RunAuthority::RunAuthority(std::string secret, long valid_to_seconds) : secret_(std::move(secret)) {
  certificate_ = pem(*authority_certificate(secret_, valid_to_seconds));
}

std::string RunAuthority::token() const { return hex(digest_of("cohort token " + secret_)); }

Credentials RunAuthority::issue(const CertificateRequest& request) const {
  const Key key = made(Key(EVP_EC_gen("P-256")));
  const Certificate certificate = unsigned_certificate("cohort endpoint", *key, request);
  extend(*certificate, NID_subject_alt_name, "URI:" + certificate_name(request.name));
  const Key signer = authority_key(secret_);
  sign(*certificate, *signer, *unsigned_certificate(authority_name(*signer), *signer, {}));
  return {.certificate = pem(*certificate),
          .private_key = pem(*key),
          .authority = certificate_,
          .token = request.token};
}

}  // namespace cohort::internal
