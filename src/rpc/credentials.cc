#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/raise.h"
#include "base/read_file.h"
#include "cohort/cluster.h"
#include "rpc/certificates.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using internal::raise;

constexpr auto kMaxFileBytes = uintmax_t{1} << 20;

// Nothing when the file does not exist.
std::optional<std::string> text_of(const fs::path& path) {
  std::error_code problem;
  const uintmax_t size = fs::file_size(path, problem);
  if (problem == std::errc::no_such_file_or_directory) return std::nullopt;
  std::optional<std::string> text;
  if (!problem) text = internal::read_file(path, kMaxFileBytes);
  if (!text) {
    raise(Code::PermissionDenied, "[Credentials] '{}' cannot be read: {}", path.string(),
          problem ? problem.message() : internal::errno_text(errno));
  }
  if (size > kMaxFileBytes) {
    raise(Code::InvalidArgument, "[Credentials] '{}' has {} bytes, more than any certificate",
          path.string(), size);
  }
  return text;
}

std::string without_line_end(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

void warn_if_others_may_read(const fs::path& path) {
  struct stat about {};
  if (stat(path.c_str(), &about) == 0 && (about.st_mode & S_IROTH) != 0) {
    internal::log_warning("[Credentials] every user of this machine may read '{}': chmod 600 it",
                          path.string());
  }
}

}  // namespace

Credentials read_credentials(const std::string& directory) {
  const fs::path at(directory);
  const auto certificate = text_of(at / "certificate.pem");
  const auto private_key = text_of(at / "private_key.pem");
  const auto authority = text_of(at / "authority.pem");
  const auto token = text_of(at / "token");
  const int parts = certificate.has_value() + private_key.has_value() + authority.has_value();
  if (parts == 0 && !token) {
    raise(Code::NotFound,
          "[Credentials] the directory '{}' has neither certificate.pem, private_key.pem and "
          "authority.pem nor a token",
          directory);
  }
  if (parts != 0 && parts != 3) {
    raise(Code::InvalidArgument,
          "[Credentials] in the directory '{}' each file needs the others: certificate.pem is {}, "
          "private_key.pem is {}, authority.pem is {}",
          directory, certificate ? "there" : "missing", private_key ? "there" : "missing",
          authority ? "there" : "missing");
  }
  warn_if_others_may_read(at / "private_key.pem");
  warn_if_others_may_read(at / "token");
  return {.certificate = certificate.value_or(""),
          .private_key = private_key.value_or(""),
          .authority = authority.value_or(""),
          .token = without_line_end(token.value_or(""))};
}

Credentials credentials_from_environment() {
  const char* const value = std::getenv("COHORT_CREDENTIALS");
  if (value == nullptr || *value == '\0') return {};
  if (std::string_view(value) == "insecure") return {.insecure = true};
  return read_credentials(value);
}

namespace internal {

void make_private_directory(const std::string& directory) {
  if (mkdir(directory.c_str(), S_IRWXU) == 0 || errno == EEXIST) return;
  raise(Code::PermissionDenied, "[Credentials] the directory '{}' cannot be made: {}", directory,
        errno_text(errno));
}

void write_secret_file(const std::string& path, const std::string& text) {
  const FileDescriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    raise(Code::PermissionDenied, "[Credentials] '{}' cannot be written: {}", path,
          errno_text(errno));
  }
}

void write_credentials(const std::string& directory, const Credentials& credentials) {
  make_private_directory(directory);
  write_secret_file(directory + "/certificate.pem", credentials.certificate);
  write_secret_file(directory + "/private_key.pem", credentials.private_key);
  write_secret_file(directory + "/authority.pem", credentials.authority);
  if (!credentials.token.empty()) write_secret_file(directory + "/token", credentials.token);
}

}  // namespace internal
}  // namespace cohort
