#pragma once

// Texts in braced lists. Not for inclusion by users: include cohort/cluster.h.

#include <concepts>
#include <string>
#include <string_view>
#include <utility>

namespace cohort {

namespace internal {

// A string in a braced list. As a std::string, {"a", "b"} would run from one pointer to the other.
struct BracedText {
  template <std::convertible_to<std::string_view> Text>
  BracedText(const Text& from) : text(std::string_view(from)) {}  // NOLINT: implicit on purpose
  std::string text;
};

struct IndexedAddress {
  IndexedAddress(int at, BracedText where) : index(at), address(std::move(where.text)) {}
  // {"2", "h2:1"}: throws InvalidArgument if the index is not a number.
  IndexedAddress(const BracedText& at, BracedText where);
  int index;
  std::string address;
};

}  // namespace internal

}  // namespace cohort
