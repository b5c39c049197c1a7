#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/tensor.h"
#include "topology/json_text.h"

// Reads fields of the JSON texts in the files of checkpoints, which may be damaged. Throws
// DataLoss, naming the file and the tensor, for a wrong field.
namespace cohort::internal {

using FileJson = nlohmann::json;

// The place of a field, for messages.
struct JsonPlace {
  std::string_view file;
  std::string_view tensor;  // empty outside tensors
  std::string to_string() const;
};

// Whole texts. Parsing: see parse_sorted_json. Throws InvalidArgument for names that are not UTF-8.
FileJson parse_file_json(std::string_view text, std::string_view file);
std::string dump_json(const FileJson& value);

void check_object(const FileJson& value, const JsonPlace& place);
// Members that must exist.
const FileJson& field(const FileJson& object, std::string_view name, const JsonPlace& place);
std::string text_field(const FileJson& object, std::string_view name, const JsonPlace& place);
uint64_t count_field(const FileJson& object, std::string_view name, const JsonPlace& place);
uint32_t checksum_field(const FileJson& object, std::string_view name, const JsonPlace& place);
Shape shape_field(const FileJson& object, std::string_view name, const JsonPlace& place);
// A list of at most so many numbers, none of them negative.
std::vector<uint64_t> counts_field(const FileJson& object, std::string_view name, size_t most,
                                   const JsonPlace& place);

// "1a2b3c4d"
std::string checksum_text(uint32_t checksum);

// The bytes of a tensor of that dtype and shape. If the number does not fit 64 bits, a number that
// exceeds the size of any file.
uint64_t bytes_of(DType dtype, const Shape& shape);

}  // namespace cohort::internal
