#pragma once

#include <cstddef>
#include <memory>

namespace cohort::internal {

// Owned holds the implementation of an object that cannot be copied, as a std::unique_ptr does from
// which it is made. It has only the functions that the library uses, so that a program that
// includes a public header compiles it in a fraction of the time.
template <typename T>
class Owned {
 public:
  Owned() = default;
  explicit Owned(T* made) : held_(made) {}
  Owned(std::unique_ptr<T> made) : held_(made.release()) {}
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    static_assert(sizeof(T) > 0, "the type must be complete");
    delete held_;
  }

  // Forgets the old object before deleting it, so that its destructor does not meet it here.
  Owned& operator=(std::unique_ptr<T> made) {
    T* const old = held_;
    held_ = made.release();
    delete old;
    return *this;
  }
  void reset() { *this = std::unique_ptr<T>(); }

  T* get() const { return held_; }
  T* operator->() const { return held_; }
  T& operator*() const { return *held_; }
  explicit operator bool() const { return held_ != nullptr; }
  friend bool operator==(const Owned& owned, std::nullptr_t) { return owned.held_ == nullptr; }

 private:
  T* held_ = nullptr;
};

}  // namespace cohort::internal
