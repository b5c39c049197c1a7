#pragma once

#include "ops/dispatch.h"

namespace cohort::internal {

// While it lives, this thread's op calls go to the graph of `tensor`, when that is a symbol and no
// graph is being built anyway.
class BuilderOf {
 public:
  explicit BuilderOf(const Tensor& tensor) : outer_(thread_dispatch().builder) {
    if (outer_ != nullptr || !tensor.defined() || !tensor.is_symbolic()) return;
    builder_ = static_cast<const SymbolBody&>(body(tensor)).builder.lock();
    thread_dispatch().builder = builder_.get();
  }
  ~BuilderOf() { thread_dispatch().builder = outer_; }
  BuilderOf(const BuilderOf&) = delete;
  BuilderOf& operator=(const BuilderOf&) = delete;

 private:
  GraphBuilder* const outer_;
  std::shared_ptr<GraphBuilder> builder_;
};

}  // namespace cohort::internal
