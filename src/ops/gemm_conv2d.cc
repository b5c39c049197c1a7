#include "ops/gemm_conv2d.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>

#include "base/raise.h"

namespace cohort::internal {

// One call on elements of type T. The matrix of columns is made for some rows of the output at a
// time, so that it stays in the nearest caches.
template <typename T>
class GemmConv2d::Run {
 public:
  explicit Run(const GemmConv2d& conv, const at::Tensor& like)
      : conv_(conv),
        layout_(conv.layout_),
        images_(conv.images_),
        filters_(conv.filters_),
        rows_at_once_(std::clamp<int64_t>(kMaxElements / (layout_.rows() * layout_.output[1]), 1,
                                          layout_.output[0])),
        matrix_(at::empty({layout_.rows() * rows_at_once_ * layout_.output[1]}, like.options())),
        columns_(matrix_.data_ptr<T>()) {
    if (conv.is_padded()) padded_ = at::zeros({image_size()}, like.options());
  }

  void forward(const T* x, const T* kernel, const T* bias, T* out) const {
    for_each_block([&](const Block& block) {
      T* const to = out + block.outputs;
      if (bias != nullptr) fill_with_bias(block, bias, to);
      write_columns(layout_, block.rows, padded_image(x, block), columns_);
      multiply(MatrixProduct<T>{.rows = filters_,
                                .columns = block.count,
                                .inner = layout_.rows(),
                                .a = {kernel, layout_.rows()},
                                .b = {columns_, block.count},
                                .out = to,
                                .out_stride = plane(),
                                .adds = bias != nullptr});
    });
  }

  void input_grad(const T* g, const T* kernel, T* x_grad) const {
    for_each_block([&](const Block& block) {
      multiply(MatrixProduct<T>{.rows = layout_.rows(),
                                .columns = block.count,
                                .inner = filters_,
                                .a = {kernel, layout_.rows(), true},
                                .b = {g + block.outputs, plane()},
                                .out = columns_,
                                .out_stride = block.count});
      add_columns(layout_, block.rows, columns_, x_grad + block.image * image_size());
    });
  }

  void kernel_grad(const T* g, const T* x, T* kernel_grad) const {
    for_each_block([&](const Block& block) {
      write_columns(layout_, block.rows, padded_image(x, block), columns_);
      multiply(MatrixProduct<T>{.rows = filters_,
                                .columns = layout_.rows(),
                                .inner = block.count,
                                .a = {g + block.outputs, plane()},
                                .b = {columns_, block.count, true},
                                .out = kernel_grad,
                                .out_stride = layout_.rows(),
                                .adds = true});
    });
  }

 private:
  static constexpr int64_t kMaxElements = (256 << 10) / sizeof(T);

  // Some rows of the output of one image.
  struct Block {
    OutputRows rows;
    int64_t count;    // of outputs in one channel
    int64_t image;    // its number
    int64_t outputs;  // where the first output is
  };

  int64_t plane() const { return layout_.output[0] * layout_.output[1]; }
  // With its padding.
  int64_t image_size() const { return layout_.channels * layout_.plane[0] * layout_.plane[1]; }

  template <typename Use>
  void for_each_block(const Use& use) const {
    for (int64_t image = 0; image < images_; ++image) {
      for (int64_t row = 0; row < layout_.output[0]; row += rows_at_once_) {
        const int64_t end = std::min(row + rows_at_once_, layout_.output[0]);
        use(Block{.rows = {row, end},
                  .count = (end - row) * layout_.output[1],
                  .image = image,
                  .outputs = image * filters_ * plane() + row * layout_.output[1]});
      }
    }
  }

  void fill_with_bias(const Block& block, const T* bias, T* to) const {
    for (int64_t filter = 0; filter < filters_; ++filter) {
      std::fill_n(to + filter * plane(), block.count, bias[filter]);
    }
  }

  // The image of the block in `x`. With padding it is a padded copy, which the image's first block
  // makes.
  const T* padded_image(const T* x, const Block& block) const {
    const auto [height, width] = conv_.plane_;
    const T* const image = x + block.image * layout_.channels * height * width;
    if (!padded_.defined()) return image;
    T* const inside =
        padded_.data_ptr<T>() + conv_.before_[0] * layout_.plane[1] + conv_.before_[1];
    for (int64_t channel = 0; block.rows.begin == 0 && channel < layout_.channels; ++channel) {
      copy_lines(LinePairs<T>{.from = image + channel * height * width,
                              .from_step = width,
                              .to = inside + channel * layout_.plane[0] * layout_.plane[1],
                              .to_step = layout_.plane[1],
                              .count = height,
                              .length = width});
    }
    return padded_.data_ptr<T>();
  }

  const GemmConv2d& conv_;
  const ColumnLayout& layout_;
  const int64_t images_;
  const int64_t filters_;
  const int64_t rows_at_once_;
  const at::Tensor matrix_;
  T* const columns_;
  at::Tensor padded_;  // one image with its padding; undefined when there is none
};

GemmConv2d::GemmConv2d(const Window2d& window, const at::Tensor& x, const at::Tensor& kernel)
    : plane_{x.size(2), x.size(3)},
      before_(PaddedPlanes(window, x).padding),
      layout_{.channels = x.size(1),
              .plane = {},
              .output = window.output("Conv2d", x.size(2), x.size(3)),
              .size = window.size,
              .stride = window.stride,
              .dilation = window.dilation},
      images_(x.size(0)),
      filters_(kernel.size(0)) {
  for (size_t i = 0; i < 2; ++i) {
    const int64_t last = (layout_.output[i] - 1) * window.stride[i];
    const int64_t covered = last + window.dilation[i] * (window.size[i] - 1) + 1;
    layout_.plane[i] = std::max(covered, before_[i] + plane_[i]);
  }
}

bool GemmConv2d::is_possible() const {
  constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
  return at::get_num_threads() == 1 && can_multiply() &&
         c10::multiply_integers(kernel_sizes()) <= kMaxInt &&
         layout_.output[0] * layout_.output[1] <= kMaxInt;
}

at::DimVector GemmConv2d::input_sizes() const {
  return {images_, layout_.channels, plane_[0], plane_[1]};
}
at::DimVector GemmConv2d::kernel_sizes() const {
  return {filters_, layout_.channels, layout_.size[0], layout_.size[1]};
}
at::DimVector GemmConv2d::output_sizes() const {
  return {images_, filters_, layout_.output[0], layout_.output[1]};
}

namespace {

// In a graph sizes may be known only now.
at::Tensor checked(const at::Tensor& given, at::IntArrayRef sizes) {
  if (given.sizes() == sizes) return given.contiguous();
  raise(Code::InvalidArgument, "[Conv2d] expected a tensor of shape {}, got {}",
        shape_of(sizes).to_string(), shape_of(given.sizes()).to_string());
}

}  // namespace

at::Tensor GemmConv2d::cropped(const at::Tensor& x) const {
  if (!is_padded()) return x;
  return x.narrow(2, before_[0], plane_[0]).narrow(3, before_[1], plane_[1]).contiguous();
}

at::Tensor GemmConv2d::forward(const at::Tensor& x, const at::Tensor& kernel,
                               const at::Tensor& bias) const {
  const at::Tensor image = checked(x, input_sizes());
  const at::Tensor filter = checked(kernel, kernel_sizes());
  const at::Tensor offset = bias.defined() ? checked(bias, {filters_}) : bias;
  const at::Tensor out = at::empty(output_sizes(), x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "conv2d", [&] {
    Run<scalar_t>(*this, x).forward(image.data_ptr<scalar_t>(), filter.data_ptr<scalar_t>(),
                                    offset.defined() ? offset.data_ptr<scalar_t>() : nullptr,
                                    out.data_ptr<scalar_t>());
  });
  return out;
}

at::Tensor GemmConv2d::input_grad(const at::Tensor& g, const at::Tensor& kernel) const {
  const at::Tensor slope = checked(g, output_sizes());
  const at::Tensor filter = checked(kernel, kernel_sizes());
  const at::Tensor x_grad =
      at::zeros({images_, layout_.channels, layout_.plane[0], layout_.plane[1]}, g.options());
  AT_DISPATCH_FLOATING_TYPES(g.scalar_type(), "conv2d_input_grad", [&] {
    Run<scalar_t>(*this, g).input_grad(slope.data_ptr<scalar_t>(), filter.data_ptr<scalar_t>(),
                                       x_grad.data_ptr<scalar_t>());
  });
  return cropped(x_grad);
}

at::Tensor GemmConv2d::kernel_grad(const at::Tensor& g, const at::Tensor& x) const {
  const at::Tensor slope = checked(g, output_sizes());
  const at::Tensor image = checked(x, input_sizes());
  const at::Tensor kernel_grad = at::zeros(kernel_sizes(), g.options());
  AT_DISPATCH_FLOATING_TYPES(g.scalar_type(), "conv2d_kernel_grad", [&] {
    Run<scalar_t>(*this, g).kernel_grad(slope.data_ptr<scalar_t>(), image.data_ptr<scalar_t>(),
                                        kernel_grad.data_ptr<scalar_t>());
  });
  return kernel_grad;
}

}  // namespace cohort::internal
