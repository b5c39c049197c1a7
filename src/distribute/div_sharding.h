#pragma once

#include <cstdint>
#include <vector>

namespace cohort::internal {

// Rows cut into parts of consecutive rows: n div k rows each, the first n mod k parts one more.
class DivSharding {
 public:
  // At most as many parts as rows, and at least one. Throws InvalidArgument when `rows` is negative
  // or `parts` below one.
  DivSharding(int64_t rows, int64_t parts);

  int64_t parts() const { return parts_; }
  int64_t size(int64_t part) const { return base_ + (part < longer_ ? 1 : 0); }
  std::vector<int64_t> sizes() const;
  // The first row of a part.
  int64_t begin(int64_t part) const;

  struct Place {
    int64_t part;
    int64_t row;  // inside of the part

    friend bool operator==(const Place&, const Place&) = default;
  };
  // Throws InvalidArgument.
  Place place(int64_t row) const;

 private:
  int64_t rows_;
  int64_t parts_;
  int64_t base_;    // rows of the shorter parts
  int64_t longer_;  // number of parts with one more
};

}  // namespace cohort::internal
