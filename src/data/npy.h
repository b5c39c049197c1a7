#pragma once

#include <map>

#include "data/array_file.h"

namespace cohort::data::internal {

// Reads the header. Throws DataLoss if it is damaged, Unimplemented if no tensor can have its
// element type.
ArrayHeader read_npy_header(BufferedBytes& bytes);
Tensor parse_npy(BufferedBytes& bytes);
// Returns the header that write_npy() writes.
std::string npy_header(const Tensor& tensor);
// Reads the arrays of an archive in memory.
std::map<std::string, Tensor> parse_npz(std::span<const std::byte> archive,
                                        const std::string& name);

}  // namespace cohort::data::internal
