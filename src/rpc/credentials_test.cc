#include "cohort/cluster.h"
#include "rpc/certificates.h"
#include "support/expect_error.h"
#include "support/scoped_environment.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

TEST(Credentials, AreReadFromADirectory) {
  const TemporaryDirectory directory;
  directory.write("certificate.pem", "C");
  directory.write("private_key.pem", "K");
  directory.write("authority.pem", "A");
  directory.write("token", "secret\n");
  const Credentials credentials = read_credentials(directory.path());
  EXPECT_EQ(credentials.certificate, "C");
  EXPECT_EQ(credentials.private_key, "K");
  EXPECT_EQ(credentials.authority, "A");
  EXPECT_EQ(credentials.token, "secret");
  EXPECT_TRUE(credentials.has_certificates());
  EXPECT_FALSE(credentials.insecure);
}

TEST(Credentials, MayBeATokenAlone) {
  const TemporaryDirectory directory;
  directory.write("token", "secret");
  EXPECT_EQ(read_credentials(directory.path()).token, "secret");
  EXPECT_FALSE(read_credentials(directory.path()).has_certificates());
}

TEST(Credentials, NameTheFilesThatAreMissing) {
  const TemporaryDirectory directory;
  EXPECT_ERROR(Code::NotFound, "neither certificate.pem", read_credentials(directory.path()));
  EXPECT_ERROR(Code::NotFound, "'/no/such/directory'", read_credentials("/no/such/directory"));
  directory.write("certificate.pem", "C");
  directory.write("authority.pem", "A");
  EXPECT_ERROR(Code::InvalidArgument, "private_key.pem is missing",
               read_credentials(directory.path()));
}

TEST(Credentials, AFileThatIsTooLargeIsNotRead) {
  const TemporaryDirectory directory;
  directory.write("token", std::string(2 << 20, 'x'));
  EXPECT_ERROR(Code::InvalidArgument, "more than any certificate",
               read_credentials(directory.path()));
}

TEST(Credentials, ComeFromTheEnvironment) {
  const TemporaryDirectory directory;
  directory.write("token", "secret");
  {
    const ScopedEnvironment variable(
        ScopedEnvironment::Variables{{"COHORT_CREDENTIALS", directory.path()}});
    EXPECT_EQ(credentials_from_environment().token, "secret");
  }
  {
    const ScopedEnvironment variable(
        ScopedEnvironment::Variables{{"COHORT_CREDENTIALS", "insecure"}});
    EXPECT_TRUE(credentials_from_environment().insecure);
  }
  const ScopedEnvironment variable(
      ScopedEnvironment::Variables{{"COHORT_CREDENTIALS", std::nullopt}});
  EXPECT_FALSE(credentials_from_environment().insecure);
  EXPECT_FALSE(credentials_from_environment().has_certificates());
}

TEST(Credentials, SecretsAreComparedWhole) {
  EXPECT_TRUE(internal::equal_secrets("abc", "abc"));
  EXPECT_FALSE(internal::equal_secrets("abc", "abd"));
  EXPECT_FALSE(internal::equal_secrets("abc", "ab"));
  EXPECT_FALSE(internal::equal_secrets("abc", ""));
}

}  // namespace
}  // namespace cohort
