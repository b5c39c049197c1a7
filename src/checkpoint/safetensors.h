#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/tensor.h"

// The safetensors format: 8 bytes with the length of a JSON text, that text, then the tensors'
// bytes without gaps. The text says for each tensor its dtype, its shape and where its bytes are.
namespace cohort::internal {

inline constexpr uint64_t kMaxHeaderBytes = 64 << 20;  // other readers take 100 MB

// One tensor of a file. Strings are bytes there.
struct SafetensorsEntry {
  DType dtype;
  Shape shape;
  uint64_t begin;  // from the beginning of the file
  uint64_t size;
};
using SafetensorsEntries = std::map<std::string, SafetensorsEntry>;

// The header, which comes before the tensors' bytes, and the place of each tensor.
struct SafetensorsLayout {
  std::string header;
  std::vector<std::string> order;  // in which the bytes follow
  SafetensorsEntries entries;
  uint64_t file_size = 0;
};
struct SafetensorsTensor {
  DType dtype;
  Shape shape;
  uint64_t size;  // in bytes
};
// Throws InvalidArgument for names that the format does not allow, or too many of them.
SafetensorsLayout lay_out(const std::map<std::string, SafetensorsTensor>& tensors);

// The length of the header (the 8 bytes included) of a file of that size, from its first 8 bytes.
// Throws DataLoss naming the file.
uint64_t header_size(std::string_view first_bytes, uint64_t file_size, const std::string& file);
// Reads a header of the length that header_size() found. Trusts nothing: throws DataLoss naming the
// file and the tensor, and Unimplemented for a dtype that tensors do not have.
SafetensorsEntries parse_header(std::string_view header, uint64_t file_size,
                                const std::string& file);

}  // namespace cohort::internal
