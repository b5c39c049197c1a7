#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/raise.h"

namespace cohort::internal {

// The values of the open scopes of one kind in one thread, outermost first. Scopes end in the
// reverse order of their beginning. For a scope that does not, close() throws and leaves the scope
// open; leave(), for destructors, logs the error and removes the scope.
template <typename T>
class ScopeStack {
 public:
  explicit ScopeStack(std::string_view kind) : kind_(kind) {}

  // Returns the ticket of the scope, which is never 0.
  uint64_t open(T value) {
    entries_.push_back({++last_ticket_, std::move(value)});
    return last_ticket_;
  }

  // Sets the ticket to 0. Does nothing if the ticket is 0.
  void close(uint64_t& ticket) {
    if (ticket == 0) return;
    if (!is_innermost(ticket)) {
      raise(Code::FailedPrecondition,
            "[{}] a scope ends before one that was opened after it, or in another thread; scopes "
            "end in reverse order, in the thread that opened them",
            kind_);
    }
    remove(ticket);
    ticket = 0;
  }

  void leave(uint64_t ticket) noexcept {
    if (ticket == 0) return;
    if (!is_innermost(ticket)) {
      log_error("[{}] a scope ends before one that was opened after it, or in another thread",
                kind_);
    }
    remove(ticket);
  }

  void clear() { entries_.clear(); }
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  const T& operator[](size_t i) const { return entries_[i].value; }
  T& operator[](size_t i) { return entries_[i].value; }
  const T& innermost() const { return entries_.back().value; }

  // The position of the scope, or size() if it is not open.
  size_t find(uint64_t ticket) const {
    size_t i = 0;
    while (i < entries_.size() && entries_[i].ticket != ticket) ++i;
    return i;
  }

 private:
  struct Entry {
    uint64_t ticket;
    T value;
  };

  bool is_innermost(uint64_t ticket) const {
    return !entries_.empty() && entries_.back().ticket == ticket;
  }
  void remove(uint64_t ticket) {
    const size_t i = find(ticket);
    if (i < entries_.size()) entries_.erase(entries_.begin() + static_cast<ptrdiff_t>(i));
  }

  std::string_view kind_;
  std::vector<Entry> entries_;
  uint64_t last_ticket_ = 0;
};

}  // namespace cohort::internal
