#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "cohort/error.h"

namespace cohort {

// The function of a table that COHORT_FUZZ_TARGET names. Ends the program, listing those there are,
// when it names none.
template <typename Function, size_t count>
Function chosen_target(const std::pair<std::string_view, Function> (&targets)[count]) {
  const char* const name = std::getenv("COHORT_FUZZ_TARGET");
  for (const auto& [known, target] : targets) {
    if (name != nullptr && known == name) return target;
  }
  std::fputs("COHORT_FUZZ_TARGET must name one of:", stderr);
  for (const auto& [known, target] : targets) {
    std::fprintf(stderr, " %.*s", static_cast<int>(known.size()), known.data());
  }
  std::fputs("\n", stderr);
  std::exit(2);
}

// Gives it the input as text. Aborts unless it takes that or refuses it in words of ours.
template <typename Function, size_t count>
int try_text(const std::pair<std::string_view, Function> (&targets)[count], const uint8_t* data,
             size_t size) {
  static const auto target = chosen_target(targets);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Status status = capture_status([&] { target(text); });
  const bool meant = status.ok() || status.message.starts_with('[');
  if (!meant || status.code == Code::Internal) std::abort();
  return 0;
}

}  // namespace cohort
