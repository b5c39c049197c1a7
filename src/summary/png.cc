#include "summary/png.h"

#include <zlib.h>

#include <string_view>

#include "base/raise.h"

namespace cohort::internal {
namespace {

std::string big_endian(uint32_t number) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(number >> shift);
  return bytes;
}

const Bytef* bytes_of(std::string_view text) { return reinterpret_cast<const Bytef*>(text.data()); }

// Length, name, content, checksum of the last two.
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

}  // namespace

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

}  // namespace cohort::internal
