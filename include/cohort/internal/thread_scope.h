#pragma once

#include <cstdint>

// What the scopes of a thread have in common. Not for inclusion by users.

namespace cohort::internal {

// ScopeKind says how the scopes of one kind end. `close` throws FailedPrecondition if a scope that
// was opened later is still open, and sets the ticket to 0 otherwise. `leave` logs that error.
struct ScopeKind {
  void (*close)(uint64_t& ticket);
  void (*leave)(uint64_t ticket);
};

// ThreadScope is a scope that its thread opened. It ends with the object, unless close() ended it.
// Scopes of one kind end in reverse order; if a scope does not, the destructor logs an error.
class ThreadScope {
 public:
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;
  // Ends the scope. Throws FailedPrecondition, and leaves the scope open, if a scope that was
  // opened later is still open.
  void close() { kind_.close(ticket_); }

 protected:
  ThreadScope(const ScopeKind& kind, uint64_t ticket) : kind_(kind), ticket_(ticket) {}
  ~ThreadScope() { kind_.leave(ticket_); }

 private:
  const ScopeKind& kind_;
  uint64_t ticket_;
};

}  // namespace cohort::internal
