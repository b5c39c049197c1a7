#pragma once

#include "kernels/image_columns.h"
#include "ops/window2d.h"

namespace cohort::internal {

// A convolution and its gradients as products of matrices, one image after the other on this
// thread. Of float or double, without groups. Throws InvalidArgument when sizes do not fit.
class GemmConv2d {
 public:
  // The convolution of `x` with `kernel`, of which only the sizes are looked at.
  GemmConv2d(const Window2d& window, const at::Tensor& x, const at::Tensor& kernel);

  // Whether it is possible here and quicker than the kernel library, which computes channels in
  // blocks that few do not fill, and shares the images among threads. The limits were measured.
  bool forward_is_quicker() const {
    return is_possible() && layout_.channels == 1 && filters_ <= 8;
  }
  bool input_grad_is_quicker() const { return is_possible() && layout_.channels < 8; }
  bool kernel_grad_is_quicker() const { return is_possible() && layout_.channels == 1; }

  // `bias` may be undefined.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias) const;
  at::Tensor input_grad(const at::Tensor& g, const at::Tensor& kernel) const;
  at::Tensor kernel_grad(const at::Tensor& g, const at::Tensor& x) const;

 private:
  template <typename T>
  class Run;

  bool is_possible() const;
  at::DimVector input_sizes() const;
  bool is_padded() const { return layout_.plane != plane_; }
  at::Tensor cropped(const at::Tensor& x) const;
  at::DimVector kernel_sizes() const;
  at::DimVector output_sizes() const;

  Window2d::Sides plane_;   // the input's
  Window2d::Sides before_;  // padding above and to the left
  ColumnLayout layout_;
  int64_t images_;
  int64_t filters_;  // the channels that come out
};

}  // namespace cohort::internal
