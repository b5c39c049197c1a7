#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "data/byte_source.h"

namespace cohort::data::internal {

class MemorySource : public ByteSource {
 public:
  MemorySource(std::span<const std::byte> bytes, std::string name)
      : bytes_(bytes), name_(std::move(name)) {}

  size_t read(std::span<std::byte> out) override {
    const size_t count = std::min(out.size(), bytes_.size());
    if (count > 0) std::memcpy(out.data(), bytes_.data(), count);
    bytes_ = bytes_.subspan(count);
    return count;
  }
  int64_t left() const override { return static_cast<int64_t>(bytes_.size()); }
  const std::string& name() const override { return name_; }

 private:
  std::span<const std::byte> bytes_;
  std::string name_;
};

// A source of bytes that the caller keeps alive.
inline std::unique_ptr<ByteSource> memory_source(std::span<const std::byte> bytes,
                                                 std::string name) {
  return std::make_unique<MemorySource>(bytes, std::move(name));
}

}  // namespace cohort::data::internal
