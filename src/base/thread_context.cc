#include "base/thread_context.h"

#include "base/mutex.h"

namespace cohort::internal {

constinit thread_local ThreadContext::Words thread_words = {};

namespace {

// By number. Entries are written once, before num_slots says that they are there.
std::array<ThreadContext::Type, ThreadContext::kMaxSlots> slot_types;
std::atomic<size_t> num_slots = 1;
Mutex adding_slots;

void destroy_all(ThreadContext::Words& words) {
  const size_t count = num_slots.load(std::memory_order_acquire);
  for (size_t i = 1; i < count; ++i) {
    if (slot_types[i].destroy == nullptr) continue;
    void* const value = std::exchange(words[i].pointer(), nullptr);
    if (value != nullptr) slot_types[i].destroy(value);
  }
}

// Values that `from` does not have are cleared in `to`.
void copy_all(ThreadContext::Words& to, const ThreadContext::Words& from) {
  const size_t count = num_slots.load(std::memory_order_acquire);
  for (size_t i = 1; i < count; ++i) {
    const ThreadContext::Type& type = slot_types[i];
    if (type.copy == nullptr) {
      to[i] = from[i];
    } else if (from[i].pointer() != nullptr) {
      type.copy(to[i].pointer(), from[i].pointer());
    } else if (to[i].pointer() != nullptr) {
      type.clear(to[i].pointer());
    }
  }
}

}  // namespace

size_t ThreadContext::number_of(std::atomic<size_t>& slot, const Type& type) {
  const std::lock_guard lock(adding_slots);
  if (slot.load() != 0) return slot.load();  // another thread has been here
  const size_t number = num_slots.load();
  if (number == kMaxSlots) {
    raise(Code::Internal, "[ThreadContext] all {} slots are in use; raise kMaxSlots", kMaxSlots);
  }
  slot_types[number] = type;
  num_slots.store(number + 1, std::memory_order_release);
  slot.store(number, std::memory_order_release);
  return number;
}

void* ThreadContext::keep(void* made) {
  struct AtThreadEnd {
    ~AtThreadEnd() { destroy_all(thread_words); }
  };
  [[maybe_unused]] thread_local const AtThreadEnd end;
  return made;
}

ThreadContext::~ThreadContext() { destroy_all(words_); }

ThreadContext& ThreadContext::operator=(const ThreadContext& other) {
  copy_all(words_, other.words_);
  return *this;
}

void ThreadContext::capture() { copy_all(words_, thread_words); }

void ThreadContext::clear() { copy_all(words_, Words()); }

ThreadContext::Scope::Scope(ThreadContext& context) : context_(context) {
  std::swap(context_.words_, thread_words);
}

ThreadContext::Scope::~Scope() { std::swap(context_.words_, thread_words); }

}  // namespace cohort::internal
