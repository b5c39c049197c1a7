#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/raise.h"

namespace cohort::internal {

// The scopes and guards that a thread has open: its device, name and strategy scopes, the graph
// that it builds, the purpose of its collectives. Each kind is a ContextSlot, declared where its
// subject is. Work that goes to another thread takes all of them along:
//
//   context.capture();                          // in the thread that hands the work over
//   const ThreadContext::Scope inside(context); // in the other thread
//
// A captured context points to guards of the thread that captured it, so that thread must wait for
// the work. What belongs to a thread itself (its name, its counters, its random numbers) stays
// thread_local.
class ThreadContext {
 public:
  static constexpr size_t kMaxSlots = 32;

  ThreadContext() = default;  // without open scopes
  ~ThreadContext();
  ThreadContext(const ThreadContext&) = delete;
  // Copies in place, so that a context which is used again and again allocates nothing.
  ThreadContext& operator=(const ThreadContext& other);

  // Copies what this thread has open.
  void capture();
  // Releases all values, and keeps their memory for the next ones.
  void clear();

  // While it lives, this thread has what `context` holds open and nothing else. Nothing else may
  // use `context` meanwhile.
  class [[nodiscard]] Scope {
   public:
    explicit Scope(ThreadContext& context);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ThreadContext& context_;
  };

  // A slot's value, if that is small and trivial, else a pointer to it, null until it is used.
  struct alignas(void*) Word {
    std::array<std::byte, sizeof(void*)> bytes = {};
    void*& pointer() { return *reinterpret_cast<void**>(bytes.data()); }
    const void* pointer() const { return *reinterpret_cast<void* const*>(bytes.data()); }
  };
  using Words = std::array<Word, kMaxSlots>;

  // How the values of a slot are treated that have memory of their own. `copy` is null for others.
  struct Type {
    void (*copy)(void*& to, const void* from) = nullptr;  // makes `to` where that is null
    void (*clear)(void* value) = nullptr;
    void (*destroy)(void* value) = nullptr;
  };
  // The number of a slot, from 1 on, which it gets by the first call.
  static size_t number_of(std::atomic<size_t>& slot, const Type& type);
  // Destroys what `made` points to when this thread ends.
  static void* keep(void* made);

 private:
  Words words_ = {};
};

// The words of this thread. Every collective and every op reads some of them: this model spares the
// call of __tls_get_addr that a shared library makes otherwise, which was most of the time of a
// small all_reduce. It takes its bytes from each thread's static block.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local ThreadContext::Words thread_words;

// One kind of context, of static storage duration. In a thread that has not set it, it is T(), for
// small types all zero. A type with a member captured() says by it what another thread gets.
//
//   constinit ContextSlot<int> guard_depth;
template <typename T>
class ContextSlot {
 public:
  constexpr ContextSlot() = default;
  ContextSlot(const ContextSlot&) = delete;
  ContextSlot& operator=(const ContextSlot&) = delete;

  // This thread's value.
  T& get() {
    ThreadContext::Word& word = thread_words[number()];
    if constexpr (kFitsWord) {
      return *reinterpret_cast<T*>(word.bytes.data());
    } else {
      void*& value = word.pointer();
      if (value == nullptr) value = ThreadContext::keep(new T());
      return *static_cast<T*>(value);
    }
  }

 private:
  static constexpr bool kSaysWhatFollows = requires(const T& value) { value.captured(); };
  static constexpr bool kFitsWord = std::is_trivially_copyable_v<T> &&
                                    sizeof(T) <= sizeof(ThreadContext::Word) && !kSaysWhatFollows;

  // Given at the first use, since the constructors of other files may come to that first.
  size_t number() {
    const size_t known = number_.load(std::memory_order_acquire);
    return known != 0 ? known : find_number();
  }
  size_t find_number() {
    if constexpr (kFitsWord) return ThreadContext::number_of(number_, {});
    return ThreadContext::number_of(number_, {.copy = copy, .clear = clear, .destroy = destroy});
  }

  static void copy(void*& to, const void* from) {
    if (to == nullptr) to = new T();
    const T& source = *static_cast<const T*>(from);
    if constexpr (kSaysWhatFollows) {
      *static_cast<T*>(to) = source.captured();
    } else {
      *static_cast<T*>(to) = source;
    }
  }
  static void clear(void* value) {
    if constexpr (requires(T & held) { held.clear(); }) {
      static_cast<T*>(value)->clear();
    } else {
      *static_cast<T*>(value) = T();
    }
  }
  static void destroy(void* value) { delete static_cast<T*>(value); }

  std::atomic<size_t> number_ = 0;
};

// While it lives, the variable is `value`.
template <typename T>
class [[nodiscard]] ScopedValue {
 public:
  ScopedValue(T& variable, std::type_identity_t<T> value)
      : variable_(variable), outer_(std::exchange(variable, std::move(value))) {}
  ~ScopedValue() { variable_ = std::move(outer_); }
  ScopedValue(const ScopedValue&) = delete;
  ScopedValue& operator=(const ScopedValue&) = delete;

 private:
  T& variable_;
  T outer_;
};

// While it lives, this thread's value of the slot is `value`.
template <typename T>
class [[nodiscard]] ContextValue : ScopedValue<T> {
 public:
  ContextValue(ContextSlot<T>& slot, std::type_identity_t<T> value)
      : ScopedValue<T>(slot.get(), std::move(value)) {}
};

// A base of scopes that only are there, such as RowReads. Each kind has a slot of its own.
template <typename Self>
class [[nodiscard]] ContextFlag : ContextValue<bool> {
 public:
  ContextFlag() : ContextValue(slot_, true) {}
  // Whether this thread has such a scope open.
  static bool active() { return slot_.get(); }

 private:
  static inline constinit ContextSlot<bool> slot_;
};

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

// A scope of that stack, which ends with this object.
template <typename T>
class [[nodiscard]] StackedScope {
 public:
  StackedScope(ScopeStack<T>& stack, std::type_identity_t<T> value)
      : stack_(stack), ticket_(stack.open(std::move(value))) {}
  ~StackedScope() { stack_.leave(ticket_); }
  StackedScope(const StackedScope&) = delete;
  StackedScope& operator=(const StackedScope&) = delete;

 private:
  ScopeStack<T>& stack_;
  const uint64_t ticket_;
};

}  // namespace cohort::internal
