#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "cohort/credentials.h"

namespace cohort {

// Signs certificates, as a launcher does for the tasks of a run.
class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name = "cohort test authority")
      : key_(new_key()), certificate_(new_certificate(name, *key_, {.name = ""})) {
    extend(*certificate_, NID_basic_constraints, "critical,CA:TRUE");
    extend(*certificate_, NID_key_usage, "critical,keyCertSign,cRLSign");
    X509_set_issuer_name(certificate_.get(), X509_get_subject_name(certificate_.get()));
    X509_sign(certificate_.get(), key_.get(), EVP_sha256());
  }

  struct Request {
    std::string name = "client";      // of the party, "/job:worker/replica:0/task:0"
    long valid_from_seconds = -3600;  // from now on
    long valid_to_seconds = 3600;
    std::string token = {};
  };
  Credentials issue(const Request& request) const {
    const Key key = new_key();
    const Certificate certificate = new_certificate("cohort test party", *key, request);
    X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate_.get()));
    extend(*certificate, NID_subject_alt_name, ("URI:cohort:" + request.name).c_str());
    X509_sign(certificate.get(), key_.get(), EVP_sha256());
    return {.certificate = pem(*certificate),
            .private_key = pem(*key),
            .authority = pem(*certificate_),
            .token = request.token};
  }

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(X509* certificate) const { X509_free(certificate); }
    void operator()(BIO* memory) const { BIO_free(memory); }
    void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
  };
  using Key = std::unique_ptr<EVP_PKEY, Free>;
  using Certificate = std::unique_ptr<X509, Free>;
  using Memory = std::unique_ptr<BIO, Free>;

  static Key new_key() { return Key(EVP_EC_gen("P-256")); }

  static Certificate new_certificate(const std::string& subject, EVP_PKEY& key,
                                     const Request& request) {
    static long serial = 1;
    Certificate certificate(X509_new());
    X509_set_version(certificate.get(), X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial++);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), request.valid_from_seconds);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), request.valid_to_seconds);
    X509_set_pubkey(certificate.get(), &key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(subject.c_str()), -1, -1, 0);
    return certificate;
  }

  static void extend(X509& certificate, int what, const char* value) {
    const std::unique_ptr<X509_EXTENSION, Free> extension(
        X509V3_EXT_conf_nid(nullptr, nullptr, what, value));
    X509_add_ext(&certificate, extension.get(), -1);
  }

  static std::string text(BIO& memory) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(&memory, &data);
    return {data, static_cast<size_t>(size)};
  }
  static std::string pem(X509& certificate) {
    const Memory out(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509(out.get(), &certificate);
    return text(*out);
  }
  static std::string pem(EVP_PKEY& key) {
    const Memory out(BIO_new(BIO_s_mem()));
    PEM_write_bio_PrivateKey(out.get(), &key, nullptr, nullptr, 0, nullptr, nullptr);
    return text(*out);
  }

  Key key_;
  Certificate certificate_;
};

}  // namespace cohort
