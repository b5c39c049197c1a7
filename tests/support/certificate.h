#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace cohort {

// A certificate for the address 127.0.0.1 that vouches for itself, and its key.
class TestCertificate {
 public:
  TestCertificate()
      : key_(EVP_EC_gen("P-256"), &EVP_PKEY_free), certificate_(X509_new(), &X509_free) {
    X509_set_version(certificate_.get(), X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate_.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate_.get()), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate_.get()), 3600);
    X509_set_pubkey(certificate_.get(), key_.get());
    X509_NAME* const name = X509_get_subject_name(certificate_.get());
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("cohort test"), -1, -1, 0);
    X509_set_issuer_name(certificate_.get(), name);
    extend(NID_basic_constraints, "critical,CA:TRUE");
    extend(NID_subject_alt_name, "IP:127.0.0.1");
    if (X509_sign(certificate_.get(), key_.get(), EVP_sha256()) == 0) {
      throw std::runtime_error("the certificate could not be signed");
    }
  }

  X509* certificate() const { return certificate_.get(); }
  EVP_PKEY* key() const { return key_.get(); }

  // The certificate as PEM.
  std::string pem() const {
    const std::unique_ptr<BIO, decltype(&BIO_free)> out(BIO_new(BIO_s_mem()), &BIO_free);
    PEM_write_bio_X509(out.get(), certificate_.get());
    char* data = nullptr;
    const long size = BIO_get_mem_data(out.get(), &data);
    return {data, static_cast<size_t>(size)};
  }

 private:
  void extend(int what, const char* value) {
    const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> extension(
        X509V3_EXT_conf_nid(nullptr, nullptr, what, value), &X509_EXTENSION_free);
    X509_add_ext(certificate_.get(), extension.get(), -1);
  }

  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_;
  std::unique_ptr<X509, decltype(&X509_free)> certificate_;
};

}  // namespace cohort
