#pragma once

namespace cohort::internal {

// While it lives, what this thread reads of variables is looked up row by row, so that no cache is
// asked or filled: it would hold the whole of a table.
class [[nodiscard]] RowReads {
 public:
  RowReads();
  ~RowReads();
  RowReads(const RowReads&) = delete;
  RowReads& operator=(const RowReads&) = delete;
  static bool active();

 private:
  const bool outer_;
};

}  // namespace cohort::internal
