// Layers on vectors: Dense, Embedding, Dropout, Flatten.

#include "base/raise.h"
#include "nn/layer.h"
#include "variables/row_reads.h"

namespace cohort::nn {

using cohort::internal::made_at;
using cohort::internal::make_variable;
using cohort::internal::raise;
using cohort::internal::require_positive;
using cohort::internal::require_size;
using cohort::internal::size_to_infer;

namespace {

Shape table_shape(int64_t count, int64_t width) {
  require_positive("Embedding", "the number of ids", count);
  require_positive("Embedding", "the width", width);
  return {count, width};
}

}  // namespace

Dense::Dense(int64_t outputs, const DenseOptions& options)
    : outputs_(outputs),
      options_(options),
      weights_(std::make_shared<cohort::internal::MadeOnce<Weights>>()) {
  require_positive("Dense", "the number of outputs", outputs);
}

Dense::Dense(int64_t inputs, int64_t outputs, const DenseOptions& options)
    : Dense(outputs, options) {
  make_weights(inputs);
}

const Dense::Weights& Dense::weights() const {
  return cohort::internal::made_weights(*weights_, "Dense", "inputs");
}

const Dense::Weights& Dense::make_weights(int64_t inputs, const void* first_call_of) const {
  require_positive("Dense", "the number of inputs", inputs);
  Weights made = cohort::internal::make_kernel_and_bias<Weights>(
      "dense", options_, {inputs, outputs_}, outputs_, first_call_of);
  Dense self = *this;  // a handle to the same layer that is not const
  return weights_->keep(std::move(made), [&](const Weights& kept) {
    self.register_variable("kernel", kept.kernel);
    self.register_variable("bias", kept.bias);
    self.add_regularizer(kept.kernel, options_.kernel_regularizer);
    if (kept.bias) self.add_regularizer(*kept.bias, options_.bias_regularizer);
  });
}

Tensor Dense::operator()(const Tensor& x, Site site) const {
  const Tensor y = made_at(site, [&] { return before_activation(x); });
  return options_.activation ? options_.activation(y, site) : y;
}

Tensor Dense::before_activation(const Tensor& x) const {
  const Weights* made = weights_->get();
  const Shape shape = x.shape();
  if (shape.has_rank() && shape.rank() < 2) {
    raise(Code::InvalidArgument,
          "[Dense] expected an input of shape (..., {}) with at least 2 dimensions, got shape {}",
          made != nullptr ? std::to_string(made->kernel.shape()[0]) : "inputs", shape.to_string());
  }
  if (made == nullptr)
    made = &make_weights(size_to_infer("Dense", x, -1, "inputs"), weights_.get());
  const Tensor kernel = made->kernel;
  require_size("Dense", x, -1, kernel.shape()[0], "inputs");
  return made->bias ? dense(x, kernel, *made->bias) : matmul(x, kernel);
}

Tensor embedding_lookup(const Variable& table, const Tensor& ids, Site site) {
  const cohort::internal::RowReads never_cached;
  return embedding_lookup(static_cast<Tensor>(table), ids, site);
}

Embedding::Embedding(int64_t count, int64_t width, const EmbeddingOptions& options)
    : table_(register_variable("table", make_variable("embedding/table", options.initializer,
                                                      table_shape(count, width), options.dtype))) {}

Tensor Embedding::operator()(const Tensor& ids, Site site) const {
  return embedding_lookup(table_, ids, site);
}

Dropout::Dropout(double rate) : rate_(rate) {
  if (rate >= 0 && rate < 1) return;
  raise(Code::InvalidArgument, "[Dropout] the rate must be at least 0 and less than 1, got {}",
        rate);
}

Tensor Dropout::operator()(const Tensor& x, Site site) const {
  return is_training() && rate_ > 0 ? dropout(x, {.rate = rate_}, site) : x;
}

Tensor Flatten::operator()(const Tensor& x, Site site) const {
  const Shape shape = x.shape();
  if (!shape.has_rank() || shape.rank() < 1) {
    raise(Code::InvalidArgument, "[Flatten] expected an input of shape (batch, ...), got {}",
          shape.to_string());
  }
  if (shape.rank() == 2) return x;
  const Shape rest = shape.without(0);
  if (rest.is_fully_known()) return reshape(x, {shape[0], rest.num_elements()}, site);
  if (shape[0] >= 0) return reshape(x, {shape[0], -1}, site);
  raise(Code::InvalidArgument,
        "[Flatten] at most the batch may be unknown, got an input of shape {}", shape.to_string());
}

}  // namespace cohort::nn
