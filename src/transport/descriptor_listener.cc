#include "transport/descriptor_listener.h"

#include <algorithm>

#include "base/raise.h"
#include "transport/unix_socket.h"

namespace cohort::internal {
namespace {

using std::chrono::steady_clock;

// With the version of the memory's layout.
constexpr std::string_view kMagic = "cohort-memory 01";
constexpr size_t kRequestBytes = kMagic.size() + kNonceBytes;
// A process that connects sends its nonce at once, or is turned away.
constexpr std::chrono::seconds kRequestTime{2};
constexpr size_t kMaxRequests = 64;
constexpr std::chrono::milliseconds kPauseAfterFailure{100};

}  // namespace

void send_descriptors(const FileDescriptor& socket, std::span<const int> descriptors) {
  send_with_descriptors(socket, kMagic, descriptors);
}

std::vector<FileDescriptor> request_descriptors(const FileDescriptor& socket,
                                                const std::string& nonce, size_t count,
                                                Deadline deadline) {
  if (nonce.size() != kNonceBytes) {
    raise(Code::InvalidArgument, "[SharedMemory] the nonce must have {} characters, got {}",
          kNonceBytes, nonce.size());
  }
  send_with_descriptors(socket, std::string(kMagic) + nonce, {});
  WithDescriptors answer = receive_with_descriptors(socket, kMagic.size(), count, deadline);
  if (answer.bytes.empty()) {
    raise(Code::PermissionDenied,
          "[SharedMemory] the other process does not know this nonce, or has dropped it");
  }
  if (answer.bytes != kMagic || answer.descriptors.size() != count) {
    raise(Code::DataLoss, "[SharedMemory] the other process offers something other than memory");
  }
  return std::move(answer.descriptors);
}

DescriptorListener::DescriptorListener()
    : name_("cohort-" + random_text()),
      listener_(listen_unix(name_)),
      wake_(unix_pair()),
      thread_("shm-listener", [this](const std::stop_token& stop) { run(stop); }) {}

DescriptorListener::~DescriptorListener() {
  thread_.request_stop();
  wake_.second = FileDescriptor();
}

std::string DescriptorListener::expect(Deadline deadline, Arrived arrived) {
  std::string nonce = random_text();
  const std::lock_guard lock(mutex_);
  std::erase_if(expected_, [now = steady_clock::now()](const auto& expected) {
    return expected.second.deadline < now;
  });
  expected_[nonce] = {deadline, std::move(arrived)};
  return nonce;
}

void DescriptorListener::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::vector<int> waited{listener_.get(), wake_.first.get()};
    Deadline first = Deadline::max();
    for (const Request& request : requests_) {
      waited.push_back(request.socket.get());
      first = std::min(first, request.deadline);
    }
    const std::vector<bool> readable = wait_readable(waited, first);
    size_t i = 2;
    requests_.remove_if([&](Request& request) {
      return (readable[i++] && advance(request)) || request.deadline <= steady_clock::now();
    });
    if (readable[0]) accept();
  }
}

void DescriptorListener::accept() {
  FileDescriptor socket = accept_unix(listener_);
  if (!socket) {  // perhaps this process has too many files open at the moment
    const int stopped[] = {wake_.first.get()};
    wait_readable(stopped, steady_clock::now() + kPauseAfterFailure);
  } else if (!is_same_user(socket)) {
    rare_log_.warning("[SharedMemory] a process of another user was refused");
  } else if (requests_.size() < kMaxRequests) {
    requests_.push_back({std::move(socket), steady_clock::now() + kRequestTime});
  }
}

// Returns whether the request is over.
bool DescriptorListener::advance(Request& request) {
  bool done = true;
  const Status outcome = capture_status([&] { done = read(request); });
  if (!outcome.ok()) rare_log_.warning("[SharedMemory] {}", outcome.to_string());
  return done;
}

bool DescriptorListener::read(Request& request) {
  std::string& text = request.received;
  const size_t missing = kRequestBytes - text.size();
  const std::string more =
      receive_with_descriptors(request.socket, missing, 0, request.deadline).bytes;
  text += more;
  if (!more.empty() && text.size() < kRequestBytes) return false;
  if (!text.starts_with(kMagic)) return true;
  if (const Arrived arrived = take_expected(text.substr(kMagic.size()))) {
    arrived(std::move(request.socket));
  }
  return true;
}

// Empty for a nonce that is not expected, or no longer.
DescriptorListener::Arrived DescriptorListener::take_expected(const std::string& nonce) {
  const std::lock_guard lock(mutex_);
  auto found = expected_.extract(nonce);
  if (found.empty() || found.mapped().deadline < steady_clock::now()) return {};
  return std::move(found.mapped().arrived);
}

}  // namespace cohort::internal
