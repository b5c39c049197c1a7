#include "summary/event_values.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/raise.h"
#include "cohort/ops.h"

namespace cohort::internal {
namespace {

// Upper limits of the buckets, ascending. The last bucket has room for every number.
const std::vector<double>& limits() {
  static const std::vector<double> all = [] {
    std::vector<double> positive;
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
    positive.push_back(std::numeric_limits<double>::max());
    std::vector<double> both;
    for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) both.push_back(-*limit);
    both.push_back(0);
    both.insert(both.end(), positive.begin(), positive.end());
    return both;
  }();
  return all;
}

// Buckets from the first to the last that has a value. An empty bucket comes before them, because
// its limit is where the first bucket begins.
void add_buckets(const std::vector<int64_t>& counts, events::Histogram& histogram) {
  const auto is_full = [](int64_t count) { return count > 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), is_full);
  const auto last = std::find_if(counts.rbegin(), counts.rend(), is_full).base();
  for (auto count = first == counts.begin() ? first : first - 1; count < last; ++count) {
    histogram.add_bucket_limit(limits()[static_cast<size_t>(count - counts.begin())]);
    histogram.add_bucket(static_cast<double>(*count));
  }
}

}  // namespace

events::Histogram make_histogram(std::span<const double> values) {
  events::Histogram histogram;
  if (values.empty()) return histogram;
  std::vector<int64_t> counts(limits().size());
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
    const auto limit = std::lower_bound(limits().begin(), limits().end(), value);
    ++counts[static_cast<size_t>(limit - limits().begin())];
  }
  const auto [least, largest] = std::minmax_element(values.begin(), values.end());
  histogram.set_min(*least);
  histogram.set_max(*largest);
  histogram.set_num(static_cast<double>(values.size()));
  histogram.set_sum(sum);
  histogram.set_sum_squares(squares);
  add_buckets(counts, histogram);
  return histogram;
}

namespace {

std::string big_endian(uint32_t number) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(number >> shift);
  return bytes;
}

const Bytef* bytes_of(std::string_view text) { return reinterpret_cast<const Bytef*>(text.data()); }

// A chunk of a PNG file: length, name, content, and the checksum of the last two.
std::string chunk(std::string_view name, std::string_view content) {
  std::string named(name);
  named += content;
  const auto sum = crc32(0, bytes_of(named), static_cast<uInt>(named.size()));
  return big_endian(static_cast<uint32_t>(content.size())) + named +
         big_endian(static_cast<uint32_t>(sum));
}

std::string deflated(std::string_view bytes) {
  uLongf size = compressBound(bytes.size());
  std::string result(size, '\0');
  const int code =
      compress(reinterpret_cast<Bytef*>(result.data()), &size, bytes_of(bytes), bytes.size());
  if (code != Z_OK) raise(Code::Internal, "[add_image] zlib gives up with {}", code);
  result.resize(size);
  return result;
}

char colour_type(int channels) { return channels == 1 ? 0 : channels == 3 ? 2 : 6; }

// Rows of pixels, `channels` bytes each: 1 (grey), 3 (RGB) or 4 (RGBA).
struct Pixels {
  uint32_t height;
  uint32_t width;
  int channels;
  std::span<const uint8_t> bytes;
};

std::string encode_png(const Pixels& pixels) {
  std::string header = big_endian(pixels.width) + big_endian(pixels.height);
  header += {8, colour_type(pixels.channels), 0, 0, 0};  // bits; compression, filter, interlace
  const size_t row = size_t{pixels.width} * static_cast<size_t>(pixels.channels);
  std::string rows;
  for (size_t y = 0; y < pixels.height; ++y) {
    rows += '\0';  // no filter
    rows.append(reinterpret_cast<const char*>(pixels.bytes.data()) + y * row, row);
  }
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunk("IDAT", deflated(rows)) +
         chunk("IEND", "");
}

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
