#pragma once

#include <memory>

#include "data/byte_source.h"

namespace cohort::data::internal {

// Streams that begin with the magic number of their format; concatenated members and frames are one
// stream, as the command line tools have it. Damage is DataLoss with the name of the inner source.
std::unique_ptr<ByteSource> gunzip(std::unique_ptr<ByteSource> inner);
std::unique_ptr<ByteSource> unzstd(std::unique_ptr<ByteSource> inner);

}  // namespace cohort::data::internal
