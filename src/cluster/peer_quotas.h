#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/mutex.h"
#include "transport/connection.h"

namespace cohort::internal {

// How many bytes each peer of a task has under way there: feeds and tensors of steps that are not
// over, requests that are not answered. Connections of one peer count together. Thread-safe.
class PeerQuotas {
 public:
  // The limit of a peer: COHORT_PEER_BYTES, or else half of the host's memory. Throws
  // InvalidArgument for a value that is not a number of bytes.
  static uint64_t limit_from_environment();

  PeerQuotas(std::string self, uint64_t limit) : self_(std::move(self)), limit_(limit) {}

  // The bytes count until the charge is destroyed.
  using Charge = std::shared_ptr<const void>;
  // For a message of `peer`. Throws ResourceExhausted when the peer has too much under way already.
  Charge charge(const Peer& peer, const Message& message);

 private:
  struct Account {
    std::atomic<uint64_t> bytes{0};
  };
  struct Held;
  std::shared_ptr<Account> account_of(const std::string& peer);

  const std::string self_;
  const uint64_t limit_;
  Mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Account>> accounts_;  // guarded by mutex_
};

}  // namespace cohort::internal
