#include "cluster/peer_quotas.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/raise.h"

namespace cohort::internal {

struct PeerQuotas::Held {
  Held(std::shared_ptr<Account> of, uint64_t size) : account(std::move(of)), bytes(size) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { account->bytes -= bytes; }

  const std::shared_ptr<Account> account;
  const uint64_t bytes;
};

uint64_t PeerQuotas::limit_from_environment() {
  const char* const value = std::getenv("COHORT_PEER_BYTES");
  const std::string_view text = value == nullptr ? "" : value;
  if (text.empty()) {
    return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
           static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) / 2;
  }
  uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error == std::errc() && end == text.data() + text.size() && bytes > 0) return bytes;
  raise(Code::InvalidArgument,
        "[Server] COHORT_PEER_BYTES is '{}'; it must be a number of bytes, such as 4000000000",
        text);
}

std::shared_ptr<PeerQuotas::Account> PeerQuotas::account_of(const std::string& peer) {
  const std::lock_guard lock(mutex_);
  if (const auto found = accounts_.find(peer); found != accounts_.end()) return found->second;
  std::erase_if(accounts_, [](const auto& one) { return one.second.use_count() == 1; });
  return accounts_[peer] = std::make_shared<Account>();
}

PeerQuotas::Charge PeerQuotas::charge(const Peer& peer, const Message& message) {
  if (message.payloads.empty() || peer.name == self_) return nullptr;
  const uint64_t bytes = size_of(message);
  std::shared_ptr<Account> account = account_of(peer.name);
  const uint64_t now = account->bytes += bytes;
  auto held = std::make_shared<Held>(std::move(account), bytes);
  if (now <= limit_) return held;
  raise(Code::ResourceExhausted,
        "[Server] {} has {} bytes of feeds, tensors and requests under way on {}, with this "
        "message of {} bytes, and may have {}; run fewer steps at a time, send less in one, or "
        "start {} with a larger COHORT_PEER_BYTES",
        peer.name, now, self_, bytes, limit_, self_);
}

}  // namespace cohort::internal
