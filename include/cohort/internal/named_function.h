#pragma once

#include <functional>
#include <string>
#include <utility>

// What the functions of a dataset's stages have in common. Not for inclusion by users: include
// cohort/dataset.h.

namespace cohort::data::internal {

template <typename Signature>
class NamedFunction;

// NamedFunction is a function with the name under which it was registered; empty if it was not.
template <typename Result, typename... Args>
class NamedFunction<Result(Args...)> {
 public:
  Result operator()(Args... args) const { return call_(args...); }
  const std::string& name() const { return name_; }

 protected:
  NamedFunction() = default;
  explicit NamedFunction(std::function<Result(Args...)> call) : call_(std::move(call)) {}

  std::function<Result(Args...)> call_;
  std::string name_;
};

}  // namespace cohort::data::internal
