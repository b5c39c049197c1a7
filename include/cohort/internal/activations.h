#pragma once

// The types of the activations. Users include cohort/nn_ops.h instead.

#include "cohort/tensor.h"

namespace cohort::nn {

struct LeakyReluOptions {
  double slope = 0.01;  // for x below 0
};
struct EluOptions {
  double alpha = 1;  // -alpha is the limit for very negative x
};
struct SoftmaxOptions {
  int axis = -1;
};

namespace functions {
struct Relu {
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;
};
struct Relu6 {
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;
};
struct LeakyRelu {
  Tensor operator()(const Tensor& x, LeakyReluOptions options = {}, Site site = Site::here()) const;
};
struct Elu {
  Tensor operator()(const Tensor& x, EluOptions options = {}, Site site = Site::here()) const;
};
struct Gelu {
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;
};
struct Softplus {
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;
};
struct Sigmoid {
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;
};
struct Tanh {
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;
};
struct Softmax {
  Tensor operator()(const Tensor& x, SoftmaxOptions options = {}, Site site = Site::here()) const;
};
struct LogSoftmax {
  Tensor operator()(const Tensor& x, SoftmaxOptions options = {}, Site site = Site::here()) const;
};
}  // namespace functions

}  // namespace cohort::nn
