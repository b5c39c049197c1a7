#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "transport/message.h"

namespace cohort::internal {

inline Buffer buffer_of(std::string bytes) {
  const auto owner = std::make_shared<const std::string>(std::move(bytes));
  return {.bytes = std::as_bytes(std::span(owner->data(), owner->size())), .owner = owner};
}

inline std::string_view text_of(const Buffer& buffer) {
  return {reinterpret_cast<const char*>(buffer.bytes.data()), buffer.bytes.size()};
}

}  // namespace cohort::internal
