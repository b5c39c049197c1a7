#include "summary/image.h"

#include "base/raise.h"
#include "cohort/ops.h"
#include "summary/png.h"

namespace cohort::internal {
namespace {

[[noreturn]] void refuse(const Tensor& image) {
  raise(Code::InvalidArgument,
        "[add_image] expected uint8 or floats of shape (height, width) or (1, 3 or 4 channels, "
        "height, width), got {} {}; cast() and reshape() it, or add the pictures of a batch one by "
        "one",
        to_string(image.dtype()), image.shape().to_string());
}

bool has_picture_shape(const Shape& shape) {
  if (shape.num_elements() == 0) return false;
  if (shape.rank() == 2) return true;
  return shape.rank() == 3 && (shape[0] == 1 || shape[0] == 3 || shape[0] == 4);
}

Tensor as_bytes(const Tensor& image) {
  if (image.dtype() == kUInt8) return image;
  if (!is_floating(image.dtype())) refuse(image);
  return cast(round(clip(cast(image, kFloat32), 0.f, 1.f) * 255.f), kUInt8);
}

}  // namespace

events::Summary::Image encode_image(const Tensor& image) {
  if (!has_picture_shape(image.shape())) refuse(image);
  const Tensor bytes = as_bytes(image);
  const bool grey = image.shape().rank() == 2;
  const Tensor rows = grey ? bytes : transpose(bytes, {1, 2, 0});
  const Shape& shape = rows.shape();
  const Pixels pixels = {.height = static_cast<uint32_t>(shape[0]),
                         .width = static_cast<uint32_t>(shape[1]),
                         .channels = grey ? 1 : static_cast<int>(shape[2]),
                         .bytes = rows.data<uint8_t>()};
  events::Summary::Image encoded;
  encoded.set_height(static_cast<int32_t>(pixels.height));
  encoded.set_width(static_cast<int32_t>(pixels.width));
  encoded.set_colorspace(pixels.channels);
  encoded.set_encoded_image_string(encode_png(pixels));
  return encoded;
}

}  // namespace cohort::internal
