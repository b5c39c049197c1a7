#include "rpc/dialer.h"

#include <algorithm>

#include "base/log.h"
#include "base/raise.h"
#include "rpc/grpc_settings.h"

namespace cohort::internal {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kFirstPause{10};
constexpr std::chrono::milliseconds kLongestPause{1000};
constexpr int kMaxAccidents = 3;  // in a row; more have a cause that lasts
// When the log says which address is awaited.
constexpr std::chrono::milliseconds kFirstNotice{2500};
constexpr std::chrono::milliseconds kNoticeEvery{5000};

// For one operation, shared with its tag.
struct Operation {
  std::atomic<bool> ended = false;
  bool ok = false;  // written before `ended`
};

}  // namespace

bool Dialer::run(ClientCall& call, const std::function<void(void* tag)>& begin, Deadline deadline) {
  const auto operation = std::make_shared<Operation>();
  queue_thread_->attach();
  begin(CompletionQueueThread::tag([operation, queue_thread = queue_thread_](bool ok) {
    operation->ok = ok;
    operation->ended = true;
    queue_thread->detach();
  }));
  const auto ended = [&] { return operation->ended.load(); };
  const auto ended_or_stopped = [&] { return ended() || stopping_.load(); };
  queue_thread_->poll_until(ended_or_stopped, deadline);
  if (!ended()) {
    call.cancel();
    // The caller may destroy the call, so gRPC must have ended the operation on it.
    queue_thread_->poll_until(ended, Deadline::max());
  }
  return operation->ok;
}

grpc::Status Dialer::finish(ClientCall& call) {
  run(
      call, [&](void* tag) { call.finish(tag); }, steady_clock::now() + std::chrono::seconds(5));
  return call.outcome();
}

std::optional<Dialer::Answered> Dialer::try_once(const std::string& address, Deadline deadline,
                                                 const std::string& handshake,
                                                 CallFailure& failure) {
  const auto call = std::make_shared<ClientCall>(make_channel(address, credentials_));
  call->context().AddMetadata(kHandshakeKey, handshake);
  if (!credentials_.token.empty()) call->context().AddMetadata(kTokenKey, credentials_.token);
  const bool started = run(
      *call, [&](void* tag) { call->start(queue_thread_->queue(), kConnectMethod, tag); },
      deadline);
  const bool answered = started && run(
                                       *call, [&](void* tag) { call->read_answer(tag); }, deadline);
  if (answered) {
    const auto& metadata = call->context().GetServerInitialMetadata();
    if (const auto answer = metadata.find(kHandshakeKey); answer != metadata.end()) {
      Answered result{call, {}};
      const Status problem = capture_status([&] {
        result.from =
            decode_handshake({answer->second.data(), answer->second.size()},
                             fmt::format("{} (which calls {})", self_.peer.name, address));
        if (credentials_.has_certificates()) {
          const std::string& name = result.from.peer.name;
          check_peer_certificate(*call->context().auth_context(), name, "the process that answers");
        }
        check_handshake(result.from, self_);
      });
      if (problem.ok()) return result;
      call->cancel();
      finish(*call);
      failure = {problem, CallFailure::Kind::Lasting};
      return std::nullopt;
    }
  }
  failure = explain_failure(finish(*call), address, credentials_.has_certificates());
  return std::nullopt;
}

void Dialer::check_stopped() const {
  if (stopping_) raise(Code::Cancelled, "[Connect] this endpoint was stopped");
}

Dialer::Answered Dialer::dial(const std::string& address, Deadline deadline, uint64_t generation,
                              const std::function<bool()>& is_wanted) {
  Handshake self = self_;
  self.peer.generation = generation;
  const std::string handshake = encode(self);
  const auto began = steady_clock::now();
  CallFailure failure;
  std::optional<Status> last_reason;  // other than silence
  int accidents = 0;
  auto next_pause = kFirstPause;
  auto next_notice = began + kFirstNotice;
  for (int tries = 1;; ++tries) {
    check_stopped();
    if (auto answered = try_once(address, deadline, handshake, failure))
      return std::move(*answered);
    check_stopped();
    if (is_wanted && !is_wanted()) {
      raise(Code::Cancelled, "[Connect] the connection to {} is no longer wanted", address);
    }
    accidents = failure.kind == CallFailure::Kind::Dubious ? accidents + 1 : 0;
    if (failure.kind == CallFailure::Kind::Lasting || accidents == kMaxAccidents) {
      throw Error(failure.status);
    }
    if (failure.status.code != Code::DeadlineExceeded) last_reason = failure.status;
    if (steady_clock::now() + next_pause >= deadline) {
      Status status = last_reason.value_or(failure.status);
      const std::chrono::duration<double> spent = steady_clock::now() - began;
      status.message += fmt::format("; tried {} times in {:.1f} s", tries, spent.count());
      throw Error(status);
    }
    if (steady_clock::now() >= next_notice) {
      next_notice += kNoticeEvery;
      log_warning("[Connect] still trying to reach {}: {}", address,
                  last_reason.value_or(failure.status).message);
    }
    queue_thread_->poll_until([this] { return stopping_.load(); },
                              steady_clock::now() + next_pause);
    next_pause = std::min(next_pause * 2, kLongestPause);
  }
}

void Dialer::stay(const Answered& answered, Deadline deadline) {
  ClientCall& call = *answered.call;
  if (run(
          call, [&](void* tag) { call.write(to_byte_buffer(kReady), tag); }, deadline))
    return;
  throw Error(lost_connection(answered.from.peer, finish(call)));
}

}  // namespace cohort::internal
