#include "distribute/div_sharding.h"

#include <algorithm>

#include "base/raise.h"

namespace cohort::internal {

DivSharding::DivSharding(int64_t rows, int64_t parts) : rows_(rows) {
  if (rows < 0 || parts < 1) {
    raise(Code::InvalidArgument, "[DivSharding] {} rows cannot be cut into {} parts", rows, parts);
  }
  parts_ = std::max<int64_t>(1, std::min(parts, rows));
  base_ = rows / parts_;
  longer_ = rows % parts_;
}

std::vector<int64_t> DivSharding::sizes() const {
  std::vector<int64_t> all;
  for (int64_t part = 0; part < parts_; ++part) all.push_back(size(part));
  return all;
}

int64_t DivSharding::begin(int64_t part) const { return part * base_ + std::min(part, longer_); }

DivSharding::Place DivSharding::place(int64_t row) const {
  if (row < 0 || row >= rows_) {
    raise(Code::InvalidArgument, "[DivSharding] there is no row {} of {}", row, rows_);
  }
  const int64_t part = std::max(row / (base_ + 1), (row - longer_) / base_);
  return {part, row - begin(part)};
}

}  // namespace cohort::internal
