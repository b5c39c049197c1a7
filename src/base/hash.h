#pragma once

#include <cstdint>
#include <string_view>

namespace cohort::internal {

// The bits of both functions never change: seeds, dropout masks and what tasks compare come from
// them.

// A number that looks random for each input: the last step of the SplitMix64 generator.
inline uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
// What SplitMix64 adds before each number that it gives.
inline constexpr uint64_t kSplitMixStep = 0x9e3779b97f4a7c15u;

// FNV-1a: the same in every process, whatever its library or machine.
constexpr uint64_t hash_text(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace cohort::internal
