#include "rpc/port_owner.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <sstream>

#include "base/file_descriptor.h"
#include "base/raise.h"

namespace cohort::internal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kListening = "0A";  // the state column of /proc/net/tcp

// The sockets that listen at a port, as the system numbers them.
std::set<std::string> sockets_at(int port) {
  std::set<std::string> found;
  const std::string wanted = fmt::format(":{:04X}", port);
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string number, local, remote, state, skipped, inode;
      words >> number >> local >> remote >> state;
      for (int i = 0; i < 5; ++i) words >> skipped;
      words >> inode;
      if (state == kListening && local.ends_with(wanted)) found.insert("socket:[" + inode + "]");
    }
  }
  return found;
}

bool holds_one_of(const fs::path& process, const std::set<std::string>& sockets) {
  std::error_code problem;
  for (const auto& file : fs::directory_iterator(process / "fd", problem)) {
    if (sockets.contains(fs::read_symlink(file, problem).string())) return true;
  }
  return false;
}

// Nothing when the process is another user's.
std::optional<std::string> owner_of(int port) {
  const std::set<std::string> sockets = sockets_at(port);
  if (sockets.empty()) return std::nullopt;
  std::error_code problem;
  for (const auto& process : fs::directory_iterator("/proc", problem)) {
    const std::string id = process.path().filename();
    if (id.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!holds_one_of(process, sockets)) continue;
    std::string name;
    std::ifstream file(process.path() / "comm");
    std::getline(file, name);
    return fmt::format("process {} ({})", id, name);
  }
  return std::nullopt;
}

// Tries to listen there and returns what the system says.
std::string system_reason(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int failure = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (failure != 0) return fmt::format("the host '{}' is unknown: {}", host, gai_strerror(failure));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(list, &freeaddrinfo);
  const FileDescriptor socket(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (bind(socket.get(), list->ai_addr, list->ai_addrlen) == 0) {
    return "another listener was there a moment ago";
  }
  return errno_text(errno);
}

}  // namespace

std::string why_not_listening(const std::string& host, int port) {
  if (const auto owner = owner_of(port)) {
    return fmt::format("port {} is in use by {}", port, *owner);
  }
  return system_reason(host, port);
}

}  // namespace cohort::internal
