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
  Ready,    // with a value or an error
  Aborted,  // lost with its worker; schedule it again
};

namespace internal {
// The tensors of a result, once they are there. Thread-safe.
class RemoteResult;
RemoteValueStatus status_of(const RemoteResult& result);
// Waits. Rethrows the error if the function failed.
const std::vector<Tensor>& tensors_of(const RemoteResult& result);

// The results of other functions that a call takes as arguments.
class RemoteArguments {
 public:
  RemoteArguments();
  ~RemoteArguments();
  RemoteArguments(const RemoteArguments&) = delete;
  RemoteArguments& operator=(const RemoteArguments&) = delete;

  using Results = std::vector<std::shared_ptr<const RemoteResult>>;
  // What stands for the tensors of a result while the call is traced.
  std::vector<Tensor> add(std::shared_ptr<const RemoteResult> result);
  // The same when each worker has a result of its own.
  std::vector<Tensor> add_per_worker(Results results);

  class Impl;
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};
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
    if constexpr (!std::is_void_v<T>) return with_tensors(tensors);
  }
  T get() const { return fetch(); }

  // For those who pass it on: its tensors, and the same structure of others.
  const std::shared_ptr<const internal::RemoteResult>& result() const { return result_; }
  T with_tensors(const std::vector<Tensor>& tensors) const requires(!std::is_void_v<T>) {
    size_t next = 0;
    return internal::replace_tensors(*static_cast<const T*>(structure_.get()),
                                     std::span<const Tensor>(tensors), next);
  }

 private:
  std::shared_ptr<const internal::RemoteResult> result_;
  std::shared_ptr<const void> structure_;  // a T, as it was when the function was traced
};

// A result for each worker: an argument of ClusterCoordinator::schedule, where it becomes the
// result of the worker that runs the function. A handle, as RemoteValue.
template <typename T = Tensor>
class PerWorkerValues {
 public:
  using Value = T;

  // One for each worker, in their order; another number is InvalidArgument when it is used.
  explicit PerWorkerValues(std::vector<RemoteValue<T>> values) : values_(std::move(values)) {}

  size_t size() const { return values_.size(); }
  // Of one worker. Throws std::out_of_range.
  const RemoteValue<T>& operator[](size_t worker) const { return values_.at(worker); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

 private:
  std::vector<RemoteValue<T>> values_;
};

namespace internal {
template <typename T>
inline constexpr bool is_per_worker_values = false;
template <typename T>
inline constexpr bool is_per_worker_values<PerWorkerValues<T>> = true;
template <typename T>
inline constexpr bool is_remote_value = false;
template <typename T>
inline constexpr bool is_remote_value<RemoteValue<T>> = true;

struct FetchLeaf {
  template <typename T>
  auto operator()(const T& leaf) const {
    if constexpr (is_remote_value<T>) {
      return leaf.fetch();
    } else if constexpr (is_per_worker_values<T>) {
      std::vector<typename T::Value> all;
      for (const auto& value : leaf) all.push_back(value.fetch());
      return all;
    } else {
      return leaf;
    }
  }
};
}  // namespace internal

}  // namespace cohort
