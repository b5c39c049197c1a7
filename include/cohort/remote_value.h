#pragma once

#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cohort/function.h"
#include "cohort/internal/nest.h"

// What scheduled functions give: values that are not there yet.

namespace cohort {

enum class RemoteValueStatus {
  NotReady,
  Ready,    // with a value, or with the error that there is instead
  Aborted,  // lost with its worker; schedule it again
};

namespace internal {
// The tensors of a result, once they are there. Thread-safe.
class RemoteResult;
RemoteValueStatus status_of(const RemoteResult& result);
// Waits. Throws the error that there is instead.
const std::vector<Tensor>& tensors_of(const RemoteResult& result);
}  // namespace internal

// The result of a scheduled function. A handle: copies refer to the same result. Thread-safe.
template <typename T = Tensor>
class RemoteValue {
 public:
  using Value = T;

  RemoteValue(std::shared_ptr<const internal::RemoteResult> result,
              std::shared_ptr<const void> structure)
      : result_(std::move(result)), structure_(std::move(structure)) {}

  RemoteValueStatus status() const { return internal::status_of(*result_); }
  // Waits until the function has run. Throws what it threw, or Cancelled when it never will.
  T fetch() const {
    const std::vector<Tensor>& tensors = internal::tensors_of(*result_);
    if constexpr (!std::is_void_v<T>) {
      size_t next = 0;
      return internal::replace_tensors(*static_cast<const T*>(structure_.get()),
                                       std::span<const Tensor>(tensors), next);
    }
  }
  T get() const { return fetch(); }

 private:
  std::shared_ptr<const internal::RemoteResult> result_;
  std::shared_ptr<const void> structure_;  // a T, as it was when the function was traced
};

namespace internal {
template <typename T>
inline constexpr bool is_remote_value = false;
template <typename T>
inline constexpr bool is_remote_value<RemoteValue<T>> = true;

struct FetchLeaf {
  template <typename T>
  auto operator()(const T& leaf) const {
    if constexpr (is_remote_value<T>) {
      return leaf.fetch();
    } else {
      return leaf;
    }
  }
};
}  // namespace internal

}  // namespace cohort
