#pragma once

#include <map>

#include "data/byte_source.h"
#include "data/read_tensor.h"

namespace cohort::data::internal {

// Reads and checks the header; DataLoss for a damaged one, Unimplemented for element types that no
// tensor has.
ArrayHeader read_npy_header(BufferedBytes& bytes);
Tensor parse_npy(BufferedBytes& bytes);
// The header that write_npy writes.
std::string npy_header(const Tensor& tensor);
// The arrays of an archive in memory.
std::map<std::string, Tensor> parse_npz(std::span<const std::byte> archive,
                                        const std::string& name);

}  // namespace cohort::data::internal
