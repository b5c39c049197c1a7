#include "transport/shared_memory.h"

#include <unistd.h>

#include <algorithm>

#include "base/raise.h"
#include "transport/shared_connection.h"
#include "transport/unix_socket.h"

namespace cohort::internal {
namespace {

using std::chrono::steady_clock;

// With the version of the memory's layout.
constexpr std::string_view kMagic = "cohort-memory 01";
constexpr size_t kRequestBytes = kMagic.size() + kNonceBytes;
constexpr size_t kDescriptors = 3;  // the memory; the foreground's and the sender's socket
// A process that connects sends its nonce at once, or is turned away.
constexpr std::chrono::seconds kHandshakeTime{2};
constexpr size_t kMaxHandshakes = 64;
constexpr std::chrono::milliseconds kPauseAfterFailure{100};

std::shared_ptr<PeerSignals> signals_over(FileDescriptor foreground, FileDescriptor background,
                                          FileDescriptor room) {
  return std::make_shared<PeerSignals>(std::array<FileDescriptor, PeerSignals::kCount>{
      std::move(foreground), std::move(background), std::move(room)});
}

// The listening side's answer to a request. Throws Unavailable, ResourceExhausted.
SharedParts send_memory(FileDescriptor socket, size_t arena_bytes) {
  auto mapping = std::make_shared<SharedMapping>(arena_bytes);
  auto [our_foreground, their_foreground] = unix_pair();
  auto [our_room, their_room] = unix_pair();
  const int offered[kDescriptors] = {mapping->descriptor(), their_foreground.get(),
                                     their_room.get()};
  send_with_descriptors(socket, kMagic, offered);
  mapping->forget_descriptor();
  return {std::move(mapping),
          signals_over(std::move(our_foreground), std::move(socket), std::move(our_room))};
}

}  // namespace

std::string memory_request(const std::string& nonce) {
  if (nonce.size() != kNonceBytes) {
    raise(Code::InvalidArgument, "[SharedMemory] a nonce has {} characters, this one {}",
          kNonceBytes, nonce.size());
  }
  return std::string(kMagic) + nonce;
}

SharedParts receive_memory(FileDescriptor socket, Deadline deadline) {
  WithDescriptors offer = receive_with_descriptors(socket, kMagic.size(), kDescriptors, deadline);
  if (offer.bytes.empty()) {
    raise(Code::PermissionDenied,
          "[SharedMemory] the other process does not know this nonce, or no longer");
  }
  if (offer.bytes != kMagic || offer.descriptors.size() != kDescriptors) {
    raise(Code::DataLoss, "[SharedMemory] the other process offers something else than memory");
  }
  auto mapping = std::make_shared<SharedMapping>(std::move(offer.descriptors[0]));
  mapping->forget_descriptor();
  return {std::move(mapping), signals_over(std::move(offer.descriptors[1]), std::move(socket),
                                           std::move(offer.descriptors[2]))};
}

std::shared_ptr<Connection> connect_shared_memory(const std::string& name, const std::string& nonce,
                                                  Peer self, Peer peer, Deadline deadline) {
  FileDescriptor socket = connect_unix(name);
  send_with_descriptors(socket, memory_request(nonce), {});
  return make_shared_connection(receive_memory(std::move(socket), deadline), 1, std::move(self),
                                std::move(peer));
}

SharedMemoryListener::SharedMemoryListener(size_t arena_bytes)
    : arena_bytes_(arena_bytes),
      name_("cohort-" + random_text()),
      listener_(listen_unix(name_)),
      wake_(unix_pair()),
      thread_("shm-listener", [this](const std::stop_token& stop) { run(stop); }) {}

SharedMemoryListener::~SharedMemoryListener() {
  thread_.request_stop();
  wake_.second = FileDescriptor();
}

std::string SharedMemoryListener::expect(Peer self, Peer peer, Deadline deadline, Arrived arrived) {
  std::string nonce = random_text();
  const std::lock_guard lock(mutex_);
  std::erase_if(expected_, [now = steady_clock::now()](const auto& expected) {
    return expected.second.deadline < now;
  });
  expected_[nonce] = {std::move(self), std::move(peer), deadline, std::move(arrived)};
  return nonce;
}

void SharedMemoryListener::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::vector<int> waited{listener_.get(), wake_.first.get()};
    Deadline first = Deadline::max();
    for (const Handshake& handshake : handshakes_) {
      waited.push_back(handshake.socket.get());
      first = std::min(first, handshake.deadline);
    }
    const std::vector<bool> readable = wait_readable(waited, first);
    size_t i = 2;
    handshakes_.remove_if([&](Handshake& handshake) {
      return (readable[i++] && advance(handshake)) || handshake.deadline <= steady_clock::now();
    });
    if (readable[0]) accept();
  }
}

void SharedMemoryListener::accept() {
  FileDescriptor socket = accept_unix(listener_);
  if (!socket) {  // perhaps this process has too many files open at the moment
    const int stopped[] = {wake_.first.get()};
    wait_readable(stopped, steady_clock::now() + kPauseAfterFailure);
  } else if (!is_same_user(socket)) {
    rare_log_.warning("[SharedMemory] a process of another user was sent away");
  } else if (handshakes_.size() < kMaxHandshakes) {
    handshakes_.push_back({std::move(socket), steady_clock::now() + kHandshakeTime});
  }
}

// Returns whether the handshake is over.
bool SharedMemoryListener::advance(Handshake& handshake) {
  bool done = true;
  const Status outcome = capture_status([&] { done = read_request(handshake); });
  if (!outcome.ok()) rare_log_.warning("[SharedMemory] {}", outcome.to_string());
  return done;
}

bool SharedMemoryListener::read_request(Handshake& handshake) {
  std::string& request = handshake.received;
  const size_t missing = kRequestBytes - request.size();
  const std::string more =
      receive_with_descriptors(handshake.socket, missing, 0, handshake.deadline).bytes;
  request += more;
  if (!more.empty() && request.size() < kRequestBytes) return false;
  if (!request.starts_with(kMagic)) return true;
  if (auto expected = take_expected(request.substr(kMagic.size()))) {
    expected->arrived(make_shared_connection(send_memory(std::move(handshake.socket), arena_bytes_),
                                             0, std::move(expected->self),
                                             std::move(expected->peer)));
  }
  return true;
}

std::optional<SharedMemoryListener::Expected> SharedMemoryListener::take_expected(
    const std::string& nonce) {
  const std::lock_guard lock(mutex_);
  auto found = expected_.extract(nonce);
  if (found.empty() || found.mapped().deadline < steady_clock::now()) return std::nullopt;
  return std::move(found.mapped());
}

}  // namespace cohort::internal
