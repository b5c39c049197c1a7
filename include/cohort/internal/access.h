#pragma once

#include <utility>

// What the parts of the library see of public classes, and users do not. Not for inclusion by
// users.

namespace cohort::internal {

// Access is a friend of the classes whose private members other parts of the library use.
struct Access {
  template <typename T, typename... Args>
  static T make(Args&&... args) {
    return T(std::forward<Args>(args)...);
  }
  // The shared state of a handle.
  template <typename T>
  static const auto& impl(const T& value) {
    return value.impl_;
  }

  // Of an iterator, for traced functions: the tensor that stands for it in operations, the same
  // iterator with another such tensor, and a text that is equal for all iterators that one trace
  // serves.
  template <typename T>
  static auto handle(const T& value) -> const decltype(value.handle_)& {
    return value.handle_;
  }
  template <typename T, typename Handle>
  static T with_handle(const T& value, Handle handle) {
    T other = value;
    other.handle_ = std::move(handle);
    return other;
  }
  template <typename T>
  static auto kind(const T& value) -> decltype(value.kind()) {
    return value.kind();
  }

  // Where the replicas of a context's run meet; null if there is one replica.
  template <typename Context>
  static auto rendezvous(const Context& context) {
    return context.rendezvous_;
  }
  template <typename Spec>
  static const auto& structure(const Spec& spec) {
    return spec.structure_;
  }
  // The trace of a function for these arguments, and their tensors. Makes the trace first if it
  // does not exist.
  template <typename F, typename... Args>
  static auto trace(const F& function, const Args&... args) {
    return function.trace(args...);
  }

  // Of a scheduled function's result: where its tensors arrive, and the same structure with other
  // tensors.
  template <typename Value>
  static const auto& result(const Value& value) {
    return value.result_;
  }
  template <typename Value, typename Tensors>
  static auto with_tensors(const Value& value, const Tensors& tensors) {
    return value.with_tensors(tensors);
  }
  // The iterator with which functions of a PerWorkerIterator are traced.
  template <typename T>
  static const auto& stand_in(const T& iterator) {
    return iterator.stand_in_;
  }
};

}  // namespace cohort::internal
