#include "collectives/packing.h"

#include <algorithm>

namespace cohort::internal {

std::vector<int64_t> equal_packs(int64_t total, int packs) {
  std::vector<int64_t> sizes(static_cast<size_t>(packs), total / packs);
  if (!sizes.empty()) sizes.back() = total - total / packs * (packs - 1);
  return sizes;
}

std::vector<std::vector<size_t>> packs_by_bytes(std::span<const int64_t> bytes, int64_t limit) {
  const bool known =
      std::all_of(bytes.begin(), bytes.end(), [](int64_t size) { return size >= 0; });
  const bool one_pack = limit == 0 || !known;
  std::vector<std::vector<size_t>> packs;
  int64_t filled = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (packs.empty() || (!one_pack && filled > limit)) {
      packs.emplace_back();
      filled = 0;
    }
    packs.back().push_back(i);
    filled += bytes[i];
  }
  return packs;
}

std::vector<std::vector<size_t>> packs_from_last(std::span<const int64_t> bytes, int64_t limit) {
  const std::vector<int64_t> reversed(bytes.rbegin(), bytes.rend());
  std::vector<std::vector<size_t>> packs = packs_by_bytes(reversed, limit);
  for (std::vector<size_t>& pack : packs) {
    for (size_t& position : pack) position = bytes.size() - 1 - position;
  }
  return packs;
}

}  // namespace cohort::internal
