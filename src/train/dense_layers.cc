// Layers on vectors: Dense, Embedding, Dropout, Flatten.

#include "base/raise.h"
#include "train/layer.h"

namespace cohort::nn {

using cohort::internal::make_variable;
using cohort::internal::raise;
using cohort::internal::require_positive;
using cohort::internal::require_size;

namespace {

Shape dense_shape(int64_t inputs, int64_t outputs) {
  require_positive("Dense", "the number of inputs", inputs);
  require_positive("Dense", "the number of outputs", outputs);
  return {inputs, outputs};
}

Shape table_shape(int64_t count, int64_t width) {
  require_positive("Embedding", "the number of ids", count);
  require_positive("Embedding", "the width", width);
  return {count, width};
}

std::optional<Variable> dense_bias(int64_t outputs, const DenseOptions& options) {
  if (!options.use_bias) return std::nullopt;
  return make_variable("dense/bias", options.bias_initializer, {outputs}, options.dtype);
}

}  // namespace

Dense::Dense(int64_t inputs, int64_t outputs, const DenseOptions& options)
    : kernel_(
          register_variable("kernel", make_variable("dense/kernel", options.kernel_initializer,
                                                    dense_shape(inputs, outputs), options.dtype))),
      bias_(register_variable("bias", dense_bias(outputs, options))) {}

Tensor Dense::operator()(const Tensor& x) const {
  const Tensor kernel = kernel_;
  const Shape shape = x.shape();
  if (shape.has_rank() && shape.rank() < 2) {
    raise(Code::InvalidArgument,
          "[Dense] expected an input of shape (..., {}) with at least 2 dimensions, got shape {}",
          kernel.shape()[0], shape.to_string());
  }
  require_size("Dense", x, -1, kernel.shape()[0], "inputs");
  return bias_ ? dense(x, kernel, *bias_) : matmul(x, kernel);
}

Embedding::Embedding(int64_t count, int64_t width, const EmbeddingOptions& options)
    : table_(register_variable("table", make_variable("embedding/table", options.initializer,
                                                      table_shape(count, width), options.dtype))) {}

Tensor Embedding::operator()(const Tensor& ids) const { return embedding_lookup(table_, ids); }

Dropout::Dropout(double rate) : rate_(rate) {
  if (rate >= 0 && rate < 1) return;
  raise(Code::InvalidArgument, "[Dropout] the rate must be at least 0 and less than 1, got {}",
        rate);
}

Tensor Dropout::operator()(const Tensor& x) const {
  return is_training() && rate_ > 0 ? dropout(x, {.rate = rate_}) : x;
}

Tensor Flatten::operator()(const Tensor& x) const {
  const Shape shape = x.shape();
  if (!shape.has_rank() || shape.rank() < 1) {
    raise(Code::InvalidArgument, "[Flatten] expected an input of shape (batch, ...), got {}",
          shape.to_string());
  }
  if (shape.rank() == 2) return x;
  const Shape rest = shape.without(0);
  if (rest.is_fully_known()) return reshape(x, {shape[0], rest.num_elements()});
  if (shape[0] >= 0) return reshape(x, {shape[0], -1});
  raise(Code::InvalidArgument,
        "[Flatten] at most the batch may be unknown, got an input of shape {}", shape.to_string());
}

}  // namespace cohort::nn
