#include "rpc/run_authority.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "base/file_descriptor.h"
#include "base/raise.h"
#include "rpc/certificates.h"

namespace cohort::internal {
namespace {

constexpr size_t kSecretBytes = 32;
using SecretBytes = std::array<unsigned char, kSecretBytes>;

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(BIO* memory) const { BIO_free(memory); }
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
};
using PrivateKey = std::unique_ptr<EVP_PKEY, Free>;
using SignedCertificate = std::unique_ptr<X509, Free>;
using Memory = std::unique_ptr<BIO, Free>;
using Extension = std::unique_ptr<X509_EXTENSION, Free>;

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
          "[Credentials] that is no token of a run: {} of the letters and digits that `cohort run` "
          "printed were expected",
          2 * kSecretBytes);
  }
  return bytes;
}

PrivateKey authority_key(const std::string& secret) {
  const SecretBytes bytes = bytes_of(secret);
  return made(PrivateKey(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, bytes.data(), bytes.size())));
}

// Differs from run to run, so that a certificate of another one has an unknown issuer.
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

SignedCertificate unsigned_certificate(const std::string& subject, EVP_PKEY& key,
                                       const CertificateRequest& request) {
  SignedCertificate certificate = made(SignedCertificate(X509_new()));
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

std::string text_of(BIO& memory) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(&memory, &data);
  return {data, static_cast<size_t>(size)};
}
std::string pem(X509& certificate) {
  const Memory out = made(Memory(BIO_new(BIO_s_mem())));
  PEM_write_bio_X509(out.get(), &certificate);
  return text_of(*out);
}
std::string pem(EVP_PKEY& key) {
  const Memory out = made(Memory(BIO_new(BIO_s_mem())));
  PEM_write_bio_PrivateKey(out.get(), &key, nullptr, nullptr, 0, nullptr, nullptr);
  return text_of(*out);
}

SignedCertificate authority_certificate(const std::string& secret, long valid_to_seconds) {
  const PrivateKey key = authority_key(secret);
  SignedCertificate certificate =
      unsigned_certificate(authority_name(*key), *key, {.valid_to_seconds = valid_to_seconds});
  extend(*certificate, NID_basic_constraints, "critical,CA:TRUE");
  extend(*certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
  sign(*certificate, *key, *certificate);
  return certificate;
}

}  // namespace

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

std::string RunAuthority::token() const {
  const std::string text = "cohort token " + secret_;
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return hex(digest);
}

Credentials RunAuthority::issue(const CertificateRequest& request) const {
  const PrivateKey key = made(PrivateKey(EVP_EC_gen("P-256")));
  const SignedCertificate certificate = unsigned_certificate("cohort party", *key, request);
  extend(*certificate, NID_subject_alt_name, "URI:" + certificate_name(request.name));
  const PrivateKey signer = authority_key(secret_);
  sign(*certificate, *signer, *unsigned_certificate(authority_name(*signer), *signer, {}));
  return {.certificate = pem(*certificate),
          .private_key = pem(*key),
          .authority = certificate_,
          .token = request.token};
}

void make_private_folder(const std::string& folder) {
  if (mkdir(folder.c_str(), S_IRWXU) == 0 || errno == EEXIST) return;
  raise(Code::PermissionDenied, "[Credentials] the folder '{}' cannot be made: {}", folder,
        std::strerror(errno));
}

void write_secret_file(const std::string& path, const std::string& text) {
  const FileDescriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    raise(Code::PermissionDenied, "[Credentials] '{}' cannot be written: {}", path,
          std::strerror(errno));
  }
}

void write_credentials(const std::string& folder, const Credentials& credentials) {
  make_private_folder(folder);
  write_secret_file(folder + "/certificate.pem", credentials.certificate);
  write_secret_file(folder + "/private_key.pem", credentials.private_key);
  write_secret_file(folder + "/authority.pem", credentials.authority);
  if (!credentials.token.empty()) write_secret_file(folder + "/token", credentials.token);
}

}  // namespace cohort::internal
