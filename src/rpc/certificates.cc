#include "rpc/certificates.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
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

Bio memory(std::string_view text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// A password prompt would wait for a terminal for ever.
int no_password(char*, int, int, void*) { return 0; }

Certificate parse_certificate(std::string_view pem, std::string_view what) {
  Certificate certificate(PEM_read_bio_X509(memory(pem).get(), nullptr, &no_password, nullptr));
  ERR_clear_error();
  if (!certificate) {
    raise(Code::InvalidArgument, "[Credentials] the {} is no certificate in PEM form", what);
  }
  return certificate;
}

Key parse_key(std::string_view pem) {
  Key key(PEM_read_bio_PrivateKey(memory(pem).get(), nullptr, &no_password, nullptr));
  ERR_clear_error();
  if (!key) {
    raise(Code::InvalidArgument,
          "[Credentials] the private key is none in PEM form, or is locked by a password");
  }
  return key;
}

std::string text_of(const ASN1_TIME* time) {
  const Bio out(BIO_new(BIO_s_mem()));
  ASN1_TIME_print(out.get(), time);
  char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  return {data, static_cast<size_t>(size)};
}

void check_time(const X509* certificate) {
  const ASN1_TIME* const from = X509_get0_notBefore(certificate);
  const ASN1_TIME* const to = X509_get0_notAfter(certificate);
  if (X509_cmp_current_time(from) > 0) {
    raise(Code::FailedPrecondition,
          "[Credentials] the certificate is valid from {} on; is this machine's clock right?",
          text_of(from));
  }
  if (X509_cmp_current_time(to) < 0) {
    raise(Code::FailedPrecondition, "[Credentials] the certificate expired on {}; make a new one",
          text_of(to));
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

void check_certificates(const Credentials& credentials, std::string_view name) {
  if (credentials.private_key.empty() || credentials.authority.empty()) {
    raise(Code::InvalidArgument,
          "[Credentials] a certificate needs a private key and an authority");
  }
  const Certificate certificate = parse_certificate(credentials.certificate, "certificate");
  const Certificate authority = parse_certificate(credentials.authority, "authority");
  if (X509_check_private_key(certificate.get(), parse_key(credentials.private_key).get()) != 1) {
    ERR_clear_error();
    raise(Code::InvalidArgument, "[Credentials] the private key is not the certificate's");
  }
  check_time(certificate.get());
  const std::vector<std::string> names = uri_names(certificate.get());
  if (!may_be_called(name, names)) {
    raise(Code::PermissionDenied,
          "[Credentials] the certificate is not for {}: it needs the alternative name URI:{}, and "
          "has "
          "[{}]",
          name, certificate_name(name), fmt::join(names, ", "));
  }
}

}  // namespace

bool is_task_name(std::string_view name) { return name.starts_with("/job:"); }

std::string certificate_name(std::string_view task) { return fmt::format("cohort:{}", task); }

bool may_be_called(std::string_view name, std::span<const std::string> certificate_names) {
  if (!is_task_name(name)) return true;
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
  // Hashes have one length, so that not even that shows.
  const auto hash = [](std::string_view text) {
    std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
    SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
    return digest;
  };
  return CRYPTO_memcmp(hash(a).data(), hash(b).data(), SHA256_DIGEST_LENGTH) == 0;
}

}  // namespace cohort::internal
