#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <optional>

#include "base/raise.h"
#include "base/rare_log.h"
#include "base/thread.h"
#include "transport/shared_connection.h"
#include "transport/shared_handshake.h"
#include "transport/shared_memory.h"
#include "transport/unix_socket.h"

namespace cohort::internal {
namespace {

using std::chrono::steady_clock;

// Who connects says its nonce at once, or is sent away.
constexpr std::chrono::seconds kHandshakeTime{2};
constexpr size_t kMaxVisitors = 64;
constexpr std::chrono::milliseconds kPauseAfterFailure{100};

std::string random_text() {
  std::array<uint64_t, 2> bits{};
  if (::getrandom(bits.data(), sizeof(bits), 0) != sizeof(bits)) {
    raise(Code::Internal, "[SharedMemory] the system gives no random numbers");
  }
  return fmt::format("{:016x}{:016x}", bits[0], bits[1]);
}

}  // namespace

// One thread accepts and talks to all visitors; none can hold up another.
class SharedMemoryListener::Impl {
 public:
  explicit Impl(SharedMemoryOptions options)
      : options_(options),
        name_("cohort-" + random_text()),
        listener_(listen_unix(name_)),
        wake_(unix_pair()),
        thread_("shm-listener", [this](const std::stop_token& stop) { run(stop); }) {}
  ~Impl() {
    thread_.request_stop();
    wake_.second = FileDescriptor();
  }

  const std::string& name() const { return name_; }

  std::string expect(Peer self, Peer peer, Deadline deadline, Arrived arrived) {
    std::string nonce = random_text();
    const std::lock_guard lock(mutex_);
    std::erase_if(expected_, [now = steady_clock::now()](const auto& one) {
      return one.second.deadline < now;
    });
    expected_[nonce] = {std::move(self), std::move(peer), deadline, std::move(arrived)};
    return nonce;
  }

 private:
  struct Expected {
    Peer self;
    Peer peer;
    Deadline deadline;
    Arrived arrived;
  };
  struct Visitor {
    FileDescriptor socket;
    Deadline deadline;
    std::string said = {};
  };

  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::vector<int> waited{listener_.get(), wake_.first.get()};
      Deadline first = Deadline::max();
      for (const Visitor& visitor : visitors_) {
        waited.push_back(visitor.socket.get());
        first = std::min(first, visitor.deadline);
      }
      const std::vector<bool> readable = wait_readable(waited, first);
      size_t i = 2;
      visitors_.remove_if([&](Visitor& visitor) {
        return (readable[i++] && listen_to(visitor)) || visitor.deadline <= steady_clock::now();
      });
      if (readable[0]) admit();
    }
  }

  void admit() {
    FileDescriptor socket = accept_unix(listener_);
    if (!socket) {  // perhaps this process has too many files open: not for ever, and not at once
      const int stopped[] = {wake_.first.get()};
      wait_readable(stopped, steady_clock::now() + kPauseAfterFailure);
    } else if (!is_same_user(socket)) {
      rare_log_.warning("[SharedMemory] a process of another user was sent away");
    } else if (visitors_.size() < kMaxVisitors) {
      visitors_.push_back({std::move(socket), steady_clock::now() + kHandshakeTime});
    }
  }

  // Whether the visitor is done with.
  bool listen_to(Visitor& visitor) {
    bool done = true;
    const Status outcome = capture_status([&] { done = hear(visitor); });
    if (!outcome.ok()) rare_log_.warning("[SharedMemory] {}", outcome.to_string());
    return done;
  }

  bool hear(Visitor& visitor) {
    const size_t missing = kGreetingBytes - visitor.said.size();
    const std::string more =
        receive_with_descriptors(visitor.socket, missing, 0, visitor.deadline).bytes;
    visitor.said += more;
    if (!more.empty() && visitor.said.size() < kGreetingBytes) return false;
    if (auto expected = find(nonce_in(visitor.said))) welcome(std::move(visitor.socket), *expected);
    return true;
  }

  std::optional<Expected> find(const std::string& nonce) {
    const std::lock_guard lock(mutex_);
    auto found = expected_.extract(nonce);
    if (found.empty() || found.mapped().deadline < steady_clock::now()) return std::nullopt;
    return std::move(found.mapped());
  }

  void welcome(FileDescriptor socket, Expected& expected) {
    auto offer = offer_memory(std::move(socket), options_.arena_bytes);
    expected.arrived(make_shared_connection(std::move(offer.mapping), std::move(offer.bells), 0,
                                            std::move(expected.self), std::move(expected.peer)));
  }

  const SharedMemoryOptions options_;
  const std::string name_;
  const FileDescriptor listener_;
  std::pair<FileDescriptor, FileDescriptor>
      wake_;                     // closing the second wakes who waits for the first
  std::list<Visitor> visitors_;  // of the thread
  RareLog rare_log_;

  std::mutex mutex_;
  std::map<std::string, Expected> expected_;  // by nonce; guarded by mutex_
  Thread thread_;
};

SharedMemoryListener::SharedMemoryListener(SharedMemoryOptions options)
    : impl_(std::make_unique<Impl>(options)) {}
SharedMemoryListener::~SharedMemoryListener() = default;

const std::string& SharedMemoryListener::name() const { return impl_->name(); }

std::string SharedMemoryListener::expect(Peer self, Peer peer, Deadline deadline, Arrived arrived) {
  return impl_->expect(std::move(self), std::move(peer), deadline, std::move(arrived));
}

}  // namespace cohort::internal
