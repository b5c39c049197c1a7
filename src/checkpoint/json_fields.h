#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/tensor.h"
#include "topology/json_text.h"

// Fields of the JSON texts in checkpoints' files, which nobody vouches for: what is not as it must
// be is DataLoss naming the file and the tensor.
namespace cohort::internal {

using FileJson = nlohmann::json;

// Where something was read, for messages.
struct JsonPlace {
  std::string_view file;
  std::string_view tensor;  // empty outside of tensors
  std::string to_string() const;
};

// Whole texts. Parsing: see parse_sorted_json. Throws InvalidArgument for names that are not UTF-8.
FileJson parse_file_json(std::string_view text, std::string_view file);
std::string dump_json(const FileJson& value);

void check_object(const FileJson& value, const JsonPlace& place);
// Members that must be there.
const FileJson& field(const FileJson& object, std::string_view name, const JsonPlace& place);
std::string text_field(const FileJson& object, std::string_view name, const JsonPlace& place);
uint64_t count_field(const FileJson& object, std::string_view name, const JsonPlace& place);
uint32_t checksum_field(const FileJson& object, std::string_view name, const JsonPlace& place);
Shape shape_field(const FileJson& object, std::string_view name, const JsonPlace& place);
// A list of at most that many numbers that are not negative.
std::vector<uint64_t> counts_field(const FileJson& object, std::string_view name, size_t most,
                                   const JsonPlace& place);

// "1a2b3c4d"
std::string checksum_text(uint32_t checksum);

// Bytes of a tensor of that kind, or a number that no file has where they do not fit 64 bits.
uint64_t bytes_of(DType dtype, const Shape& shape);

}  // namespace cohort::internal
