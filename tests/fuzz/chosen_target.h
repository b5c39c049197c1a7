#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

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

}  // namespace cohort
